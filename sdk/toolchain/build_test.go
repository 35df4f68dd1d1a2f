package toolchain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissing: without its compiler, or with another version, a build says what
// was found and what to install. The compilers are scripts that say a version.
func TestMissing(t *testing.T) {
	for name, test := range map[string]struct {
		file, setting, says string // says: "" for no compiler
		want                []string
	}{
		"zig, none":    {"a.zig", "ZIG", "", []string{"Zig 0.17.1 is needed, it is not there", "python3 -m pip install ziglang==0.17.1", "let ZIG name"}},
		"zig, older":   {"a.zig", "ZIG", "0.13.0", []string{"Zig 0.17.1 is needed, found 0.13.0"}},
		"as, none":     {"a.ts", "ASC", "", []string{"npm install assemblyscript@0.28.20", "let ASC name"}},
		"as, newer":    {"a.ts", "ASC", "Version 0.29.0", []string{"found Version 0.29.0"}},
		"rust, none":   {"a.rs", "RUSTC", "", []string{"apt-get install rustc libstd-rust-dev-wasm32 lld-14", "rustup target add wasm32-unknown-unknown"}},
		"rust, older":  {"a.rs", "RUSTC", "rustc 1.56.1 (59eed8a2a 2021-11-01)", []string{"found rustc 1.56.1"}},
		"rust, target": {"a.rs", "RUSTC", "rustc 1.99.0", []string{"found rustc 1.99.0 without its library for wasm32-unknown-unknown"}},
		"go, none":     {"main.go", "GO", "", []string{"Go 1.26 or later is needed", "https://go.dev/dl"}},
		"go, older":    {"main.go", "GO", "go1.25.9", []string{"found go1.25.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			compiler := filepath.Join(t.TempDir(), "compiler")
			if test.says != "" {
				if err := os.WriteFile(compiler, []byte("#!/bin/sh\necho '"+test.says+"'\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv(test.setting, compiler)
			p, err := Find(folder(t, "plug", map[string]string{test.file: ""}))
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Build(t.Context(), "")
			if missing := (*Missing)(nil); !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("got %v, want a Missing", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if _, err := os.Stat(p.Module()); err == nil {
				t.Errorf("there is a module, made of nothing")
			}
		})
	}
}

// TestCompileErrors: what the compiler says is told, and the module that was there
// before stays.
func TestCompileErrors(t *testing.T) {
	dir := folder(t, "plug", map[string]string{"go.mod": "module plug\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { nothing() }\n", "plug.wasm": "before"})
	p, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Build(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "main.go:3:15: undefined: nothing") {
		t.Errorf("got %v, want the compiler's message", err)
	}
	if text, err := os.ReadFile(p.Module()); err != nil || string(text) != "before" {
		t.Errorf("the module is %q, %v; want it as it was", text, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the folder has %v, %v; want what it had", entries, err)
	}
}

// TestReplace: a file is put in another's place whole, with the mode of a file that
// a server reads.
func TestReplace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.wasm")
	for _, text := range []string{"first", "second, longer"} {
		if err := replace(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("got %v, %v; want mode 644", info, err)
		}
	}
	if err := replace(filepath.Join(t.TempDir(), "none", "a.wasm"), nil); err == nil {
		t.Error("a folder that is not there: got no error")
	}
}
