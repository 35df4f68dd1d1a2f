package plugin

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(target, name string) {
		temporary := filepath.Join(dir, "temporary")
		if err := os.Symlink(target, temporary); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// As a ConfigMap is mounted: a.wasm leads through ..data to a dated folder.
	write("..1/a.wasm", "one")
	write("..2/a.wasm", "two")
	write("..3/a.wasm", "two")
	link("..1", "..data")
	link("..data/a.wasm", "a.wasm")
	plain := write("b.wasm", "b")
	specs := []Spec{{Path: filepath.Join(dir, "a.wasm")}, {Path: plain}, {Wasm: []byte("built in")}}
	w := NewWatch(specs)
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name    string
		change  func()
		changed bool
	}{
		{"nothing", func() {}, false},
		{"another folder", func() { link("..2", "..data") }, true},
		{"nothing again", func() {}, false},
		{"another folder with the same content", func() { link("..3", "..data") }, false},
		{"the same content written again", func() { write("b.wasm", "b") }, false},
		{"the time alone", func() { os.Chtimes(plain, later, later) }, false},
		{"content of the same length", func() { write("b.wasm", "c") }, true},
		{"a file gone", func() { os.Remove(plain) }, true},
		{"still gone", func() {}, false},
		{"back", func() { write("b.wasm", "c") }, true},
		{"one more plugin", func() { specs = append(specs, Spec{Path: write("d.wasm", "d")}) }, true},
	} {
		c.change()
		if got := w.Changed(specs); got != c.changed {
			t.Errorf("%s: changed %v, want %v", c.name, got, c.changed)
		}
	}
}
