package toolchain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folder makes a folder of that name with these files.
func folder(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for file, text := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		files   []string
		file    string // of the folder, "" for the folder
		want    string // language, entry, name
		refused string
	}{
		"one source":          {files: []string{"a.zig", "README.md", "wasmeter/wasmeter.zig"}, want: "zig a.zig a"},
		"named as the folder": {files: []string{"other.rs", "plug.rs"}, want: "rust plug.rs plug"},
		"module beside it":    {files: []string{"x.ts", "y.ts", "y.wasm", "types.d.ts"}, want: "as y.ts y"},
		"the file":            {files: []string{"x.ts", "y.ts"}, file: "x.ts", want: "as x.ts x"},
		"go, no module":       {files: []string{"main.go", "main_test.go", "prices.go"}, want: "go main.go plug"},
		"several":             {files: []string{"x.ts", "y.ts"}, refused: "several sources (x.ts, y.ts)"},
		"two languages":       {files: []string{"x.ts", "y.rs"}, refused: "in several languages (x.ts and y.rs)"},
		"nothing":             {files: []string{"README.md"}, refused: "begin with wasmeter plugin new"},
		"no source":           {files: []string{"README.md"}, file: "README.md", refused: "not the source of a plugin"},
		"not there":           {file: "none.zig", refused: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			files := make(map[string]string)
			for _, f := range test.files {
				files[f] = ""
			}
			p, err := Find(filepath.Join(folder(t, "plug", files), test.file))
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%v: got %v, want %q", test.files, err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(p.Language) + " " + p.Entry + " " + p.Name; got != test.want {
				t.Errorf("%v: got %s, want %s", test.files, got, test.want)
			}
		})
	}
}

func TestGoModuleNames(t *testing.T) {
	for text, want := range map[string]string{
		"module example.com/org/billing\n\ngo 1.26\n": "billing",
		"// a comment\nmodule \"quota\"\n":            "quota",
		"go 1.26\n":                                   "",
	} {
		p, err := Find(folder(t, "plug", map[string]string{"go.mod": text, "main.go": ""}))
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "no line that begins with module")):
			t.Errorf("%q: got %v, want a fault", text, err)
		case want != "" && (err != nil || p.Name != want):
			t.Errorf("%q: got %v, %v; want %s", text, p, err, want)
		}
	}
}

func TestStale(t *testing.T) {
	dir := folder(t, "plug", map[string]string{"a.zig": "", "a.wasm": ""})
	p, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		source, module int // s
		want           bool
	}{{10, 20, false}, {20, 10, true}} {
		for file, at := range map[string]int{"a.zig": test.source, "a.wasm": test.module} {
			moment := time.Unix(int64(1_000_000_000+at), 0)
			if err := os.Chtimes(filepath.Join(dir, file), moment, moment); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Stale(); got != test.want {
			t.Errorf("a source of %d and a module of %d s: got stale %v, want %v", test.source, test.module, got, test.want)
		}
	}
}
