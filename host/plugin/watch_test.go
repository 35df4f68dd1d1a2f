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
	paths := []string{filepath.Join(dir, "a.wasm"), plain}
	w := NewWatch(paths)
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name    string
		change  func()
		changed string
	}{
		{"nothing", func() {}, ""},
		{"another folder", func() { link("..2", "..data") }, "a.wasm"},
		{"nothing again", func() {}, ""},
		{"another folder with the same content", func() { link("..3", "..data") }, ""},
		{"the same content written again", func() { write("b.wasm", "b") }, ""},
		{"the time alone", func() { os.Chtimes(plain, later, later) }, ""},
		{"content of the same length", func() { write("b.wasm", "c") }, "b.wasm"},
		{"a file gone", func() { os.Remove(plain) }, "b.wasm"},
		{"still gone", func() {}, ""},
		{"back", func() { write("b.wasm", "c") }, "b.wasm"},
		{"one more file", func() { paths = append(paths, write("d.wasm", "d")) }, "d.wasm"},
	} {
		c.change()
		got := ""
		for _, path := range w.Changed(paths) {
			got += filepath.Base(path)
		}
		if got != c.changed {
			t.Errorf("%s: changed %q, want %q", c.name, got, c.changed)
		}
	}
}
