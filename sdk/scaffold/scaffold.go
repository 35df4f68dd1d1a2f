// Package scaffold makes the folder that a plugin begins with: a small one that
// works, with a configuration, tests and the SDK, so that it builds offline.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/wasmeter/wasmeter/sdk"
	"github.com/wasmeter/wasmeter/sdk/toolchain"
)

//go:embed template
var templates embed.FS

// words are what a language calls things.
type words struct {
	Name         string // of the plugin
	LanguageName string
	Source       string // its file
	Compiler     string
	MaxFuel      string // of a call
	SDK          string // its folder in the plugin's
	sdk          string // its folder in package sdk
}

func wordsOf(l toolchain.Language, name string) words {
	w := map[toolchain.Language]words{
		toolchain.Go: {Source: "main.go", Compiler: "Go 1.26 or later", MaxFuel: "5_000_000",
			sdk: "go", SDK: "wasmeter/sdk/go"},
		toolchain.AssemblyScript: {Source: name + ".ts", MaxFuel: "100_000",
			Compiler: "AssemblyScript 0.28.20 (`npm install`)", sdk: "assemblyscript"},
		toolchain.Zig: {Source: name + ".zig", MaxFuel: "100_000",
			Compiler: "Zig 0.17.1 (`python3 -m pip install ziglang==0.17.1`)", sdk: "zig"},
		toolchain.Rust: {Source: name + ".rs", MaxFuel: "100_000",
			Compiler: "Rust 1.63 or later and its wasm32 target", sdk: "rust"},
		toolchain.C: {Source: name + ".c", MaxFuel: "100_000",
			Compiler: "Zig 0.17.1, which is a C compiler too (`python3 -m pip install ziglang==0.17.1`)", sdk: "zig"},
	}[l]
	w.Name, w.LanguageName = name, l.Title()
	if w.SDK == "" {
		w.SDK = toolchain.SDKFolder
	}
	return w
}

// Write makes a plugin of that name in dir, which is not there yet or empty.
func Write(dir string, l toolchain.Language, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch entries, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty (it has %s); name a folder that is not there yet", dir, entries[0].Name())
	}
	w := wordsOf(l, name)
	for _, folder := range []string{"plugin", string(l)} {
		if err := w.copy(path.Join("template", folder), dir); err != nil {
			return err
		}
	}
	to := filepath.Join(dir, filepath.FromSlash(w.SDK))
	if err := sdk.Copy(w.sdk, to); err != nil {
		return err
	}
	if l != toolchain.Go {
		return nil
	}
	// The SDK is a package of a module, of which nothing else is there.
	return os.WriteFile(filepath.Join(dir, toolchain.SDKFolder, "go.mod"), []byte("module github.com/wasmeter/wasmeter\n\ngo 1.26\n"), 0o644)
}

// copy fills in the templates of a folder.
func (w *words) copy(folder, dir string) error {
	return fs.WalkDir(templates, folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(file, folder)))
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		t, err := template.ParseFS(templates, file)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, w); err != nil {
			return err
		}
		to = strings.TrimSuffix(to, ".tmpl")
		if base := filepath.Base(to); strings.HasPrefix(base, "plugin.") {
			to = filepath.Join(filepath.Dir(to), w.Source)
		}
		return os.WriteFile(to, text.Bytes(), 0o644)
	})
}

// CheckName refuses what is no plugin's name in a server's configuration.
func CheckName(name string) error {
	const most = 64
	bad := strings.ContainsFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_')
	})
	if name == "" || len(name) > most || bad || name[0] == '-' || name[0] == '_' {
		return fmt.Errorf("%q is no plugin's name; use 1 to %d of a-z, 0-9, - and _, a letter or digit first", name, most)
	}
	return nil
}
