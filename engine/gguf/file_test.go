package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample returns the bytes of a small valid file with every kind of entry.
func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	err := Write(&b, []KeyValue{
		{"general.architecture", "llama"},
		{"block_count", uint32(30)},
		{"tokens", []string{"a", "", "ㄱ"}},
		{"scores", []float32{1, -2}},
		{"flag", true},
	}, []Tensor{
		{Name: "norm", Type: F32, Shape: []uint64{2}, Data: []byte{0, 0, 128, 63, 0, 0, 0, 64}},
		{Name: "weight", Type: Q8_0, Shape: []uint64{32, 2}, Data: bytes.Repeat([]byte{7}, 68)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f, err := Parse(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"general.architecture", "block_count", "tokens", "scores", "flag"}
	if got := f.Keys(); !slices.Equal(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	if got, err := f.Texts("tokens"); err != nil || !slices.Equal(got, []string{"a", "", "ㄱ"}) {
		t.Errorf("tokens: got %q, %v", got, err)
	}
	if f.Version != 3 || len(f.Tensors) != 2 {
		t.Fatalf("got version %d with %d tensors, want 3 with 2", f.Version, len(f.Tensors))
	}
	w, ok := f.Tensor("weight")
	if !ok || w.Type != Q8_0 || !slices.Equal(w.Shape, []uint64{32, 2}) || !bytes.Equal(w.Data, bytes.Repeat([]byte{7}, 68)) {
		t.Errorf("tensor weight: got %v, %v", w, ok)
	}
	if w.Elements() != 64 {
		t.Errorf("elements of %d: got %d, want 64", w.Shape, w.Elements())
	}
	if _, ok := f.Tensor("absent"); ok {
		t.Error("tensor absent was found")
	}
}

// TestTruncated cuts the file at every byte. The padding behind the last
// tensor's data is the only part that a reader can do without.
func TestTruncated(t *testing.T) {
	whole := sample(t)
	end := bytes.LastIndexByte(whole, 7) + 1
	for n := range whole {
		f, err := Parse(whole[:n:n])
		if n >= end {
			if err != nil {
				t.Errorf("cut at byte %d of %d, in the padding: %v", n, len(whole), err)
			}
			continue
		}
		if err == nil {
			t.Fatalf("cut at byte %d of %d: no error, %d tensors", n, len(whole), len(f.Tensors))
		}
		if !strings.Contains(err.Error(), "download it again") {
			t.Errorf("cut at byte %d: the error does not say what to do: %v", n, err)
		}
	}
}

func TestRefused(t *testing.T) {
	// patch replaces the first old in the sample by as many bytes.
	patch := func(old, replacement string) func([]byte) []byte {
		return func(b []byte) []byte {
			if len(old) != len(replacement) || !bytes.Contains(b, []byte(old)) {
				t.Fatalf("bad patch of %q by %q", old, replacement)
			}
			return bytes.Replace(b, []byte(old), []byte(replacement), 1)
		}
	}
	// after sets the bytes at a distance behind the first mark.
	after := func(mark string, distance int, value ...byte) func([]byte) []byte {
		return func(b []byte) []byte {
			at := bytes.Index(b, []byte(mark))
			if at < 0 {
				t.Fatalf("no %q in the sample", mark)
			}
			copy(b[at+len(mark)+distance:], value)
			return b
		}
	}
	tests := []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "byte 0: the magic needs 4 bytes, but the file ends at byte 0"},
		{"other format", patch("GGUF", "<htm"), `it starts with "<htm"`},
		{"version 1", patch("GGUF\x03", "GGUF\x01"), "GGUF version 1; versions 2 and 3 are supported"},
		{"version 4", patch("GGUF\x03", "GGUF\x04"), "GGUF version 4; versions 2 and 3 are supported"},
		{"big-endian", patch("GGUF\x03\x00\x00\x00", "GGUF\x00\x00\x00\x03"), "big-endian GGUF version 3"},
		{"tensor count", func(b []byte) []byte { b[15] = 0x7f; return b }, "tensor 3 of 9151314442816847874"},
		{"key count", func(b []byte) []byte { b[16] = 200; return b }, "metadata key "},
		{"key twice", func(b []byte) []byte {
			return bytes.Replace(b, []byte("scores"), []byte("tokens"), 1)
		}, `key "tokens" appears twice`},
		{"key length", func(b []byte) []byte { b[26] = 1; return b }, "the key has 65556 bytes, at most 65535 are allowed"},
		{"value type", after("block_count", 0, 13), `key "block_count": byte 88: unknown value type 13`},
		{"bool", after("flag", 4, 2), `key "flag": byte 208: bool is 2, want 0 or 1`},
		{"array of arrays", after("scores", 4, 9), "arrays of arrays are not supported"},
		{"array element type", after("scores", 4, 99), "unknown array element type 99"},
		{"array length", after("scores", 8, 0, 0, 0, 0, 0, 0, 0, 0x80), "array of 9223372036854775808 float32 needs at least 4 bytes each"},
		{"string array length", after("tokens", 8, 0xff, 0xff, 0xff), "array of 16777215 string needs at least 8 bytes each"},
		{"string length", after("llama", -13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), `key "general.architecture": byte 64: the string needs 18446744073709551615 bytes`},
		{"no dimensions", after("norm", 0, 0), `tensor "norm": 0 dimensions, want 1 to 4`},
		{"five dimensions", after("norm", 0, 5), `tensor "norm": 5 dimensions, want 1 to 4`},
		{"empty dimension", after("norm", 4, 0), `tensor "norm": shape [0] is empty`},
		{"huge dimension", after("weight", 4, 32, 0, 0, 0, 0, 0, 0, 0x40), `tensor "weight": shape [4611686018427387936 2] has more elements than can be addressed`},
		{"huge row", after("weight", 4, 32, 0, 0, 0, 0, 0, 0, 0x10), `tensor "weight" needs`},
		{"partial block", after("weight", 4, 33), `a row of 33 elements is not whole blocks of 32, as type Q8_0 needs`},
		{"withdrawn type", after("weight", 20, 4), `tensor "weight": unknown type 4`},
		{"unaligned", after("weight", 24, 33), `tensor "weight": offset 33 is not a multiple of the alignment 32`},
		{"overlap", after("weight", 24, 0), `tensors "norm" and "weight" overlap`},
		{"offset beyond", after("weight", 24, 0x80), `tensor "weight" needs 68 more: it is truncated`},
		{"offset wraps", after("weight", 24, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), `tensor "weight": offset 18446744073709551584 is beyond every file`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.damage(sample(t)))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error  %v\nwant part  %s", err, test.want)
			}
		})
	}
}

func TestDuplicateTensor(t *testing.T) {
	data := []byte{0, 0, 0, 0}
	var b bytes.Buffer
	twice := Tensor{Name: "a", Type: F32, Shape: []uint64{1}, Data: data}
	if err := Write(&b, nil, []Tensor{twice, twice}); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(b.Bytes()); err == nil || !strings.Contains(err.Error(), `name "a" appears twice`) {
		t.Errorf("got error %v", err)
	}
}

func TestAlignment(t *testing.T) {
	// A file of alignment 64, written by hand: the writer knows only 32.
	build := func(alignment uint32) []byte {
		b := append([]byte(magic), 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
		b = appendText(b, alignmentKey)
		b = append(b, byte(typeUint32), 0, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, alignment)
		b = appendText(b, "t")
		b = append(b, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, byte(F32), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
		return append(b, make([]byte, 128-len(b))...)
	}
	b := append(build(64), 1, 2, 3, 4)
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Tensors[0].Data; !bytes.Equal(got, []byte{1, 2, 3, 4}) {
		t.Errorf("data at alignment 64: got %v, want the bytes behind byte 128", got)
	}
	for _, n := range []uint32{0, 3, 48, 1 << 31} {
		if _, err := Parse(build(n)); err == nil || !strings.Contains(err.Error(), "not a power of two") {
			t.Errorf("alignment %d: got error %v", n, err)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := Open(filepath.Join(dir, "absent.gguf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: got %v, want fs.ErrNotExist", err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("directory: no error")
	}
	for _, data := range [][]byte{nil, sample(t)[:40]} {
		path := write("cut.gguf", data)
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("file of %d bytes: got %v, want an error with its path", len(data), err)
		}
	}
	f, err := Open(write("good.gguf", sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	name, err := f.Text("general.architecture")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if name != "llama" {
		t.Errorf("architecture after close: got %q, want %q", name, "llama")
	}
}

// TestModel reads the real model. Counts are those that the Python package gguf
// 0.19.0 prints for it.
func TestModel(t *testing.T) {
	const path = "../../models/SmolLM2-135M-Instruct.Q4_1.gguf"
	f, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no model at %s; run: make model", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if arch, err := f.Text("general.architecture"); err != nil || arch != "llama" {
		t.Errorf("architecture: got %q, %v", arch, err)
	}
	if n, err := f.Uint("llama.block_count"); err != nil || n != 30 {
		t.Errorf("block count: got %d, %v, want 30", n, err)
	}
	if x, err := f.Float("llama.attention.layer_norm_rms_epsilon"); err != nil || float32(x) != 1e-5 {
		t.Errorf("epsilon: got %v, %v, want 1e-5", x, err)
	}
	tokens, err := f.Texts("tokenizer.ggml.tokens")
	if err != nil || len(tokens) != 49152 || tokens[1] != "<|im_start|>" {
		t.Errorf("tokens: got %d, %v, want 49152 with <|im_start|> second", len(tokens), err)
	}
	if types, err := f.Ints("tokenizer.ggml.token_type"); err != nil || len(types) != 49152 || types[1] != 3 {
		t.Errorf("token types: got %d, %v, want 49152 with 3 second", len(types), err)
	}
	count := map[DType]int{}
	for _, tensor := range f.Tensors {
		count[tensor.Type]++
	}
	if count[Q4_1] != 210 || count[Q8_0] != 1 || count[F32] != 61 || len(f.Tensors) != 272 {
		t.Errorf("tensors: got %d, %v, want 272: 210 Q4_1, 1 Q8_0, 61 F32", len(f.Tensors), count)
	}
	embd, ok := f.Tensor("token_embd.weight")
	if !ok || embd.Type != Q8_0 || !slices.Equal(embd.Shape, []uint64{576, 49152}) {
		t.Errorf("token_embd.weight: got %s %d", embd.Type, embd.Shape)
	}
}

// FuzzParse holds that no input makes the reader panic, that whatever is
// accepted can be read in full, and that views stay inside the input.
func FuzzParse(f *testing.F) {
	whole := sample(f)
	f.Add(whole)
	for _, n := range []int{0, 4, 24, 60, 200, len(whole) - 40} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		for _, key := range file.Keys() {
			file.Describe(key)
			file.Text(key)
			file.Uint(key)
			file.Float(key)
			file.Bool(key)
			file.Texts(key)
			file.Ints(key)
			file.Floats(key)
		}
		total := 0
		for _, tensor := range file.Tensors {
			total += len(tensor.Data)
			if got, want := uint64(len(tensor.Data)), tensor.Elements()/uint64(tensor.Type.BlockLen())*uint64(tensor.Type.BlockBytes()); got != want {
				t.Errorf("tensor %q: %d bytes, want %d", tensor.Name, got, want)
			}
		}
		if total > len(data) {
			t.Errorf("tensors hold %d bytes of a file of %d", total, len(data))
		}
	})
}

func BenchmarkOpenModel(b *testing.B) {
	const path = "../../models/SmolLM2-135M-Instruct.Q4_1.gguf"
	if _, err := os.Stat(path); err != nil {
		b.Skipf("no model at %s; run: make model", path)
	}
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
