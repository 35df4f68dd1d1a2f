package gguf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAssemble(t *testing.T) {
	data, released := []byte{1, 2, 3, 4}, 0
	f, err := Assemble([]KeyValue{{"a.key", uint32(7)}}, []Tensor{{"t", F32, []uint64{1}, data}}, func() error { released++; return errors.New("gone") })
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Uint("a.key"); n != 7 || err != nil {
		t.Errorf("a.key is %d, %v", n, err)
	}
	tensor, ok := f.Tensor("t")
	if !ok || &tensor.Data[0] != &data[0] {
		t.Errorf("the tensor is %+v, found %t; want a view", tensor, ok)
	}
	if err := f.Close(); released != 1 || err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("closed: released %d times, %v", released, err)
	}
	if err := f.Close(); released != 1 || err != nil {
		t.Errorf("closed again: released %d times, %v", released, err)
	}
}

func TestAssembleRefused(t *testing.T) {
	good := Tensor{"t", F32, []uint64{1}, make([]byte, 4)}
	for name, test := range map[string]struct {
		metadata []KeyValue
		tensors  []Tensor
		want     string
	}{
		"value":      {[]KeyValue{{"k", 1}}, nil, "has no GGUF type"},
		"key twice":  {[]KeyValue{{"k", true}, {"k", true}}, nil, `key "k" appears twice`},
		"name twice": {nil, []Tensor{good, good}, "taken"},
		"no name":    {nil, []Tensor{{"", F32, []uint64{1}, make([]byte, 4)}}, "empty"},
		"long name":  {nil, []Tensor{{strings.Repeat("n", 65), F32, []uint64{1}, make([]byte, 4)}}, "too long"},
		"size":       {nil, []Tensor{{"t", F32, []uint64{2}, make([]byte, 4)}}, "shape [2] of F32 needs 8"},
		"shape":      {nil, []Tensor{{"t", F32, nil, nil}}, "0 dimensions"},
	} {
		if _, err := Assemble(test.metadata, test.tensors, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

func TestMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, unmap, err := Map(path)
	if err != nil || string(data) != "bytes" {
		t.Fatalf("got %q, %v", data, err)
	}
	for range 2 { // the second time does nothing
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := Map(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

// Bytes that are forgotten are there when they are read.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := []byte(strings.Repeat("0123456789abcde\n", 4096))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	mapped, unmap, err := Map(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap()
	memory, release, err := Memory(uint64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	copy(memory, content)
	for name, data := range map[string][]byte{"a file": mapped, "memory": memory} {
		for _, view := range [][]byte{data, data[1:], data[5000:5001], data[100:9000], nil} {
			Forget(view)
		}
		if !bytes.Equal(data, content) {
			t.Errorf("%s has other bytes after it was forgotten", name)
		}
	}
}
