package model_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// tinyFile is the parts of backendtest.TinyLlama, to be changed.
type tinyFile struct {
	metadata []gguf.KeyValue
	tensors  []gguf.Tensor
}

// set gives a key another value, or removes it with nil.
func (f *tinyFile) set(key string, value any) {
	f.metadata = slices.DeleteFunc(f.metadata, func(kv gguf.KeyValue) bool { return kv.Key == key })
	if value != nil {
		f.metadata = append(f.metadata, gguf.KeyValue{Key: key, Value: value})
	}
}

// floats adds a float32 tensor, in place of one of the same name.
func (f *tinyFile) floats(name string, values []float32, shape ...uint64) {
	f.remove(name)
	var data []byte
	for _, x := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	f.tensors = append(f.tensors, gguf.Tensor{Name: name, Type: gguf.F32, Shape: shape, Data: data})
}

func (f *tinyFile) remove(name string) {
	f.tensors = slices.DeleteFunc(f.tensors, func(t gguf.Tensor) bool { return t.Name == name })
}

// load makes the changed model on the reference backend.
func (f *tinyFile) load(t *testing.T) (model.Model, error) {
	t.Helper()
	return model.Load(backendtest.File(t, f.metadata, f.tensors), backendtest.NewReference(8))
}

func newTinyFile() *tinyFile {
	f := &tinyFile{}
	f.metadata, f.tensors = backendtest.TinyLlama()
	return f
}

func TestShape(t *testing.T) {
	m, err := newTinyFile().load(t)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Shape{
		Name: "tiny", Architecture: "llama", Device: "reference float32",
		Vocab: 101, Context: 512, MaxRows: 8,
		KVBytes: 2 * 2 * 2 * 16 * 4, // keys and values, layers, heads, values of a head, float32
	}
	if got := m.Shape(); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRefusals(t *testing.T) {
	ones := func(n int) []float32 { return slices.Repeat([]float32{1}, n) }
	for _, c := range []struct {
		name   string
		change func(f *tinyFile)
		want   []string // parts of the error
	}{
		{"no architecture", func(f *tinyFile) { f.set("general.architecture", nil) }, []string{"general.architecture"}},
		{"other architecture", func(f *tinyFile) { f.set("general.architecture", "mamba") }, []string{`"mamba"`, "supported are: llama"}},
		{"no layers", func(f *tinyFile) { f.set("llama.block_count", nil) }, []string{"llama.block_count"}},
		{"zero layers", func(f *tinyFile) { f.set("llama.block_count", uint32(0)) }, []string{"llama.block_count: 0 is not between 1 and"}},
		{"too many layers", func(f *tinyFile) { f.set("llama.block_count", uint32(math.MaxUint32)) }, []string{"llama.block_count: 4294967295"}},
		{"more layers than tensors", func(f *tinyFile) { f.set("llama.block_count", uint32(3)) }, []string{`"blk.2.attn_norm.weight" is missing`, "[96]"}},
		{"fewer layers than tensors", func(f *tinyFile) { f.set("llama.block_count", uint32(1)) }, []string{`"blk.1.`, "not known"}},
		{"text for a number", func(f *tinyFile) { f.set("llama.context_length", "long") }, []string{"llama.context_length", "string"}},
		{"two faults", func(f *tinyFile) {
			f.set("llama.context_length", uint32(0))
			f.set("llama.attention.head_count", nil)
		}, []string{"llama.context_length: 0", "llama.attention.head_count"}},
		{"heads do not divide the width", func(f *tinyFile) { f.set("llama.attention.head_count", uint32(7)) }, []string{"width of 96", "7 heads"}},
		{"key heads do not divide the heads", func(f *tinyFile) { f.set("llama.attention.head_count_kv", uint32(4)) }, []string{"6 query heads", "4 key/value heads"}},
		{"other length of keys", func(f *tinyFile) { f.set("llama.attention.key_length", uint32(32)) }, []string{`"blk.0.attn_q.weight" has shape [96 96], want [96 192]`}},
		{"other length of values", func(f *tinyFile) { f.set("llama.attention.value_length", uint32(32)) }, []string{"llama.attention.value_length", "32", "16"}},
		{"no vocabulary", func(f *tinyFile) { f.set("tokenizer.ggml.tokens", nil) }, []string{"tokenizer.ggml.tokens"}},
		{"empty vocabulary", func(f *tinyFile) { f.set("tokenizer.ggml.tokens", []string{}) }, []string{"tokenizer.ggml.tokens", "0 tokens"}},
		{"vocabulary of another size", func(f *tinyFile) { f.set("llama.vocab_size", uint32(100)) }, []string{"llama.vocab_size: 100", "101"}},
		{"embedding of another size", func(f *tinyFile) { f.set("tokenizer.ggml.tokens", []string{"a"}) }, []string{`"token_embd.weight" has shape [96 101], want [96 1]`}},
		{"no epsilon", func(f *tinyFile) { f.set("llama.attention.layer_norm_rms_epsilon", nil) }, []string{"layer_norm_rms_epsilon"}},
		{"epsilon is NaN", func(f *tinyFile) { f.set("llama.attention.layer_norm_rms_epsilon", float32(math.NaN())) }, []string{"layer_norm_rms_epsilon: NaN"}},
		{"odd rope", func(f *tinyFile) { f.set("llama.rope.dimension_count", uint32(15)) }, []string{"llama.rope.dimension_count: 15"}},
		{"rope beyond the head", func(f *tinyFile) { f.set("llama.rope.dimension_count", uint32(18)) }, []string{"llama.rope.dimension_count: 18", "16"}},
		{"rope base zero", func(f *tinyFile) { f.set("llama.rope.freq_base", float32(0)) }, []string{"llama.rope.freq_base: 0"}},
		{"yarn", func(f *tinyFile) { f.set("llama.rope.scaling.type", "yarn") }, []string{`llama.rope.scaling.type: "yarn"`, "none and linear"}},
		{"linear factor zero", func(f *tinyFile) {
			f.set("llama.rope.scaling.type", "linear")
			f.set("llama.rope.scaling.factor", float32(0))
		}, []string{"llama.rope.scaling.factor: 0"}},
		{"experts", func(f *tinyFile) { f.set("llama.expert_count", uint32(8)) }, []string{"llama.expert_count", "8", "mixtures of experts"}},
		{"missing tensor", func(f *tinyFile) { f.remove("blk.1.ffn_up.weight") }, []string{`"blk.1.ffn_up.weight" is missing`, "[96 256]"}},
		{"tensor of another shape", func(f *tinyFile) { f.floats("output_norm.weight", ones(95), 95) }, []string{`"output_norm.weight" has shape [95], want [96]`}},
		{"unknown tensor", func(f *tinyFile) { f.floats("blk.0.attn_output.bias", ones(96), 96) }, []string{`"blk.0.attn_output.bias" is not known`}},
		{"bias of another length", func(f *tinyFile) { f.floats("blk.0.attn_k.bias", ones(96), 96) }, []string{`"blk.0.attn_k.bias" has shape [96], want [32]`}},
		{"rope factors of another length", func(f *tinyFile) { f.floats("rope_freqs.weight", ones(4), 4) }, []string{`"rope_freqs.weight" has shape [4], want [8]`}},
		{"rope factor zero", func(f *tinyFile) { f.floats("rope_freqs.weight", make([]float32, 8), 8) }, []string{`"rope_freqs.weight": element 0 is 0`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTinyFile()
			c.change(f)
			_, err := f.load(t)
			if err == nil {
				t.Fatalf("no error, want one with %q", c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

// logitsOf runs four tokens and returns the last one's logits.
func logitsOf(t *testing.T, f *tinyFile) []float32 {
	t.Helper()
	m, err := f.load(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reserve(1, 16); err != nil {
		t.Fatal(err)
	}
	batch := &backend.Batch{Sample: []int32{3}}
	backendtest.Append(batch, []int32{5, 17, 99, 3}, 0, []int32{0}, 16)
	logits, err := m.Forward(batch)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// Some keys say in other words what the file says without them, and so must
// give the same logits; others must not be ignored.
func TestOptionalParts(t *testing.T) {
	plain := logitsOf(t, newTinyFile())
	embedding := func(f *tinyFile) gguf.Tensor {
		return f.tensors[slices.IndexFunc(f.tensors, func(t gguf.Tensor) bool { return t.Name == "token_embd.weight" })]
	}
	factors := func(x float32) []float32 { return slices.Repeat([]float32{x}, 8) }
	for _, c := range []struct {
		name   string
		change func(f *tinyFile)
		same   bool
	}{
		{"default rope base", func(f *tinyFile) { f.set("llama.rope.freq_base", float32(10000)) }, true},
		{"default rope dimensions", func(f *tinyFile) { f.set("llama.rope.dimension_count", uint32(16)) }, true},
		{"default key length", func(f *tinyFile) { f.set("llama.attention.key_length", uint32(16)) }, true},
		{"scaling none", func(f *tinyFile) { f.set("llama.rope.scaling.type", "none") }, true},
		{"rope factors of one", func(f *tinyFile) { f.floats("rope_freqs.weight", factors(1), 8) }, true},
		{"output like the embedding", func(f *tinyFile) {
			t := embedding(f)
			t.Name = "output.weight"
			f.tensors = append(f.tensors, t)
		}, true},
		{"bias of zeros", func(f *tinyFile) { f.floats("blk.0.attn_v.bias", make([]float32, 32), 32) }, true},
		{"bias", func(f *tinyFile) { f.floats("blk.0.attn_v.bias", slices.Repeat([]float32{1}, 32), 32) }, false},
		{"rope base", func(f *tinyFile) { f.set("llama.rope.freq_base", float32(500000)) }, false},
		{"rope dimensions", func(f *tinyFile) { f.set("llama.rope.dimension_count", uint32(8)) }, false},
		{"epsilon", func(f *tinyFile) { f.set("llama.attention.layer_norm_rms_epsilon", float32(0.5)) }, false},
		{"linear scaling", func(f *tinyFile) {
			f.set("llama.rope.scaling.type", "linear")
			f.set("llama.rope.scaling.factor", float32(4))
		}, false},
		{"rope factors", func(f *tinyFile) { f.floats("rope_freqs.weight", factors(4), 8) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newTinyFile()
			c.change(f)
			if same := slices.Equal(logitsOf(t, f), plain); same != c.same {
				t.Errorf("logits equal to the plain file's: %t, want %t", same, c.same)
			}
		})
	}
}

// Both ways of scaling by four divide every angle by four.
func TestRopeScalingByFactorsEqualsLinear(t *testing.T) {
	linear, factors := newTinyFile(), newTinyFile()
	linear.set("llama.rope.scaling.type", "linear")
	linear.set("llama.rope.scaling.factor", float32(4))
	factors.floats("rope_freqs.weight", slices.Repeat([]float32{4}, 8), 8)
	if a, b := logitsOf(t, linear), logitsOf(t, factors); !slices.Equal(a, b) {
		t.Errorf("linear scaling gives %g …, factors %g …", a[:4], b[:4])
	}
}

// FuzzMetadata puts hostile numbers into the keys: an error or a model, but
// neither a panic nor memory that the file does not justify.
func FuzzMetadata(f *testing.F) {
	keys := []string{
		"llama.block_count", "llama.context_length", "llama.embedding_length", "llama.feed_forward_length",
		"llama.attention.head_count", "llama.attention.head_count_kv", "llama.attention.key_length",
		"llama.rope.dimension_count", "llama.vocab_size", "llama.expert_count",
	}
	for i := range keys {
		f.Add(uint8(i), uint64(0), uint64(1))
		f.Add(uint8(i), uint64(96), uint64(math.MaxUint64))
		f.Add(uint8(i), uint64(1<<17), uint64(1<<12))
	}
	f.Fuzz(func(t *testing.T, key uint8, a, b uint64) {
		file := newTinyFile()
		file.set(keys[int(key)%len(keys)], a)
		file.set(keys[(int(key)+1)%len(keys)], b)
		if m, err := file.load(t); err == nil && m.Shape().Vocab != 101 {
			t.Errorf("a model of shape %+v", m.Shape())
		}
	})
}
