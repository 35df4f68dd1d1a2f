//go:build linux

package gguf

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// manyPages writes a model of one large tensor and opens it.
func manyPages(t *testing.T) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.gguf")
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i >> 12)
	}
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(out, nil, []Tensor{{Name: "a", Type: F32, Shape: []uint64{1 << 18}, Data: data}}); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, path
}

// TestGuardFindsTornFile truncates a file while it is mapped: reading it would end the
// process by SIGBUS.
func TestGuardFindsTornFile(t *testing.T) {
	f, path := manyPages(t)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	f.Unload(f.Tensors[0])
	err := Guard(f.Tensors[0].CheckFinite)
	if !errors.Is(err, ErrTorn) {
		t.Errorf("reading a file that was truncated: error %v, want ErrTorn", err)
	}
}

func TestGuardPassesErrorsAndPanics(t *testing.T) {
	want := errors.New("own")
	if err := Guard(func() error { return want }); err != want {
		t.Errorf("got error %v, want that of the function", err)
	}
	for name, read := range map[string]func() error{
		"its own": func() error { panic("own") },
		"of Go":   func() error { var s []int; _ = s[len(os.Args)+5]; return nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a panic %s was taken for a fault", name)
				}
			}()
			_ = Guard(read)
		}()
	}
}

// What was unloaded is read from the file again, and data that is elsewhere is left alone.
func TestUnload(t *testing.T) {
	f, _ := manyPages(t)
	own := f.Tensors[0]
	elsewhere := own
	elsewhere.Data = []byte{1, 2, 3, 4}
	for _, tensor := range []Tensor{own, elsewhere, {}} {
		f.Unload(tensor)
	}
	if elsewhere.Data[3] != 4 {
		t.Errorf("data outside of the file was changed to %v", elsewhere.Data)
	}
	for i, b := range own.Data {
		if b != byte(i>>12) {
			t.Fatalf("byte %d: got %d, want %d", i, b, byte(i>>12))
		}
	}
}
