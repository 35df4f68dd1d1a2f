package gguf

import (
	"errors"
	"strings"
	"testing"
)

func TestWriteRefused(t *testing.T) {
	tests := []struct {
		name    string
		kv      []KeyValue
		tensors []Tensor
		want    string
	}{
		{"int", []KeyValue{{"k", 1}}, nil, `write key "k": a value of Go type int has no GGUF type`},
		{"nil", []KeyValue{{"k", nil}}, nil, `a value of Go type <nil> has no GGUF type`},
		{"nested", []KeyValue{{"k", [][]int32{{1}}}}, nil, `a value of Go type [][]int32 has no GGUF type`},
		{"alignment", []KeyValue{{"general.alignment", uint32(64)}}, nil, "leave the key out"},
		{"size", nil, []Tensor{{Name: "t", Type: F32, Shape: []uint64{2}, Data: make([]byte, 7)}}, `tensor "t": 7 bytes of data, shape [2] of F32 needs 8`},
		{"shape", nil, []Tensor{{Name: "t", Type: Q4_0, Shape: []uint64{31}}}, "not whole blocks"},
		{"no shape", nil, []Tensor{{Name: "t", Type: F32}}, `tensor "t"`},
		{"unknown type", nil, []Tensor{{Name: "t", Type: 99, Shape: []uint64{1}}}, `tensor "t"`},
	}
	for _, test := range tests {
		var b strings.Builder
		if err := Write(&b, test.kv, test.tensors); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want part %s", test.name, err, test.want)
		}
	}
	full := errors.New("disk full")
	if err := Write(failing{full}, nil, nil); !errors.Is(err, full) {
		t.Errorf("writer's error: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
