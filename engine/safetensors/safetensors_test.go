package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// file puts a header before a body of so many bytes.
func file(header string, body int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	data = append(data, header...)
	for i := range body {
		data = append(data, byte(i))
	}
	return data
}

func TestParse(t *testing.T) {
	f, err := Parse(file(`{"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},
		"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"empty":{"dtype":"I64","shape":[5,0],"data_offsets":[4,4]}}   `, 16))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range f.Tensors {
		got = append(got, fmt.Sprint(x.Name, x.Type, x.Shape, x.Data))
	}
	want := []string{"aF32[] [0 1 2 3]", "emptyI64[5 0] []", "bBF16[2 3] [4 5 6 7 8 9 10 11 12 13 14 15]"}
	if !slices.Equal(got, want) || f.Metadata["format"] != "pt" {
		t.Errorf("got %q, %v, want %q", got, f.Metadata, want)
	}
}

// The file was written by the library itself: safetensors.numpy.save_file of
// {"x": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "y": numpy.array([1.5],
// numpy.float16)} with metadata {"k": "v"}, version 0.8.0.
func TestParseOfTheLibrary(t *testing.T) {
	data, err := os.ReadFile("testdata/numpy.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var x []byte
	for _, bits := range []uint32{0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000} { // 0 to 5
		x = binary.LittleEndian.AppendUint32(x, bits)
	}
	if len(f.Tensors) != 2 || f.Metadata["k"] != "v" {
		t.Fatalf("got %+v", f)
	}
	if g := f.Tensors[0]; g.Name != "x" || g.Type != "F32" || !slices.Equal(g.Shape, []uint64{2, 3}) || !bytes.Equal(g.Data, x) {
		t.Errorf("x is %+v", g)
	}
	if g := f.Tensors[1]; g.Name != "y" || g.Type != "F16" || !slices.Equal(g.Shape, []uint64{1}) || !bytes.Equal(g.Data, []byte{0, 0x3e}) {
		t.Errorf("y is %+v", g)
	}
}

func TestRefused(t *testing.T) {
	one := func(dtype, shape, offsets string) string {
		return `{"t":{"dtype":` + dtype + `,"shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	big := binary.LittleEndian.AppendUint64(nil, maxHeader+1)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":             {nil, "0 bytes are no safetensors file"},
		"seven bytes":         {make([]byte, 7), "7 bytes are no"},
		"header of no bytes":  {make([]byte, 8), "not a JSON object"},
		"header too long":     {append(big, make([]byte, 100)...), "at most 100000000 are allowed"},
		"web page":            {[]byte("<!DOCTYPE html><html>"), "web page"},
		"header cut":          {file(one(`"F32"`, "[1]", "[0,4]"), 0)[:20], "it is truncated"},
		"not an object":       {file(`[1]`, 0), "not a JSON object"},
		"broken JSON":         {file(`{"t":`, 0), "the header is damaged"},
		"name twice":          {file(`{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "duplicate"},
		"metadata of numbers": {file(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		"unknown type":        {file(one(`"F3"`, "[1]", "[0,4]"), 4), `dtype "F3" is not known`},
		"no type":             {file(`{"t":{"shape":[1],"data_offsets":[0,4]}}`, 4), `dtype "" is not known`},
		"size and shape":      {file(one(`"F32"`, "[2]", "[0,4]"), 4), "hold 4 bytes, shape [2] of F32 needs 8"},
		"overflow":            {file(one(`"F32"`, "[4611686018427387904]", "[0,0]"), 0), "more bytes than can be addressed"},
		"overflow of product": {file(one(`"U8"`, "[4294967296,4294967296]", "[0,0]"), 0), "more bytes than can be addressed"},
		"negative":            {file(one(`"U8"`, "[-1]", "[0,1]"), 1), "tensor \"t\""},
		"fraction":            {file(one(`"U8"`, "[1.5]", "[0,1]"), 1), "tensor \"t\""},
		"many dimensions":     {file(one(`"U8"`, "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1), "9 dimensions"},
		"backwards":           {file(one(`"U8"`, "[1]", "[1,0]"), 1), "want a beginning and an end"},
		"three offsets":       {file(one(`"U8"`, "[1]", "[0,1,2]"), 1), "want a beginning and an end"},
		"past the end":        {file(one(`"F32"`, "[1]", "[0,4]"), 3), "ends 1 bytes after the file"},
		"far past the end":    {file(one(`"U8"`, "[18446744073709551615]", "[0,18446744073709551615]"), 3), "bytes after the file"},
		"hole at the start":   {file(one(`"U8"`, "[1]", "[1,2]"), 2), "1 bytes before tensor \"t\" belong to no tensor"},
		"hole at the end":     {file(one(`"U8"`, "[1]", "[0,1]"), 2), "1 bytes at the end belong to no tensor"},
		"overlap":             {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), `tensor "b" overlaps`},
		"empty name":          {file(`{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "the name has 0 bytes"},
		"long name":           {file(`{"`+strings.Repeat("n", 1025)+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), "the name has 1025 bytes"},
	} {
		if f, err := Parse(test.data); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", name, f, err, test.want)
		}
	}
}

// FuzzParse: an error, or tensors that are the body, in order and without gap.
func FuzzParse(f *testing.F) {
	f.Add(file(`{"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 16))
	f.Add(file(`{"__metadata__":{"format":"pt"}}`, 0))
	f.Add([]byte("<!DOCTYPE html>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		var body []byte
		for _, tensor := range file.Tensors {
			n := elementBytes(tensor.Type)
			for _, d := range tensor.Shape {
				n *= d
			}
			if n != uint64(len(tensor.Data)) {
				t.Errorf("tensor %q of %s %d has %d bytes", tensor.Name, tensor.Type, tensor.Shape, len(tensor.Data))
			}
			body = append(body, tensor.Data...)
		}
		if !bytes.HasSuffix(data, body) {
			t.Errorf("the tensors' %d bytes are not the end of the file's %d", len(body), len(data))
		}
	})
}
