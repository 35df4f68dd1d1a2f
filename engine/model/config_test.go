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

// tensor returns a tensor, to be changed.
func (f *tinyFile) tensor(name string) *gguf.Tensor {
	return &f.tensors[slices.IndexFunc(f.tensors, func(t gguf.Tensor) bool { return t.Name == name })]
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
		{"other architecture", func(f *tinyFile) { f.set("general.architecture", "mamba") }, []string{`"mamba"`, "supported are: llama, qwen2, qwen3, gemma3"}},
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
		{"NaN in a norm", func(f *tinyFile) { f.floats("output_norm.weight", append(ones(95), float32(math.NaN())), 96) }, []string{`"output_norm.weight": element 95 is NaN`, "damaged"}},
		{"infinite scale", func(f *tinyFile) { f.tensor("token_embd.weight").Data[34+1] = 0x7c }, []string{`"token_embd.weight": a scale of block 1, elements 32 to 63, is `, "damaged"}},
		{"type that nobody reads", func(f *tinyFile) {
			t := f.tensor("blk.0.ffn_down.weight")
			t.Type, t.Data = 23, make([]byte, 96*136) // 256 elements in 136 bytes
		}, []string{`"blk.0.ffn_down.weight"`, "IQ4_XS is not supported", "Q4_K"}},
		{"rope factor infinite", func(f *tinyFile) { f.floats("rope_freqs.weight", append(ones(7), float32(math.Inf(1))), 8) }, []string{`"rope_freqs.weight": element 7 is +Inf`}},
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

// TestArchitectureRefusals changes the tiny models of the other architectures.
func TestArchitectureRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		tiny   string
		change func(f *tinyFile)
		want   []string // parts of the error
	}{
		{"no bias", "qwen2", func(f *tinyFile) { f.remove("blk.1.attn_k.bias") }, []string{`"blk.1.attn_k.bias" is missing`}},
		{"bias of an output", "qwen2", func(f *tinyFile) { f.floats("output.bias", make([]float32, 101), 101) }, []string{`"output.bias" is not known`}},
		{"keys of another architecture", "qwen2", func(f *tinyFile) { f.set("general.architecture", "qwen3") }, []string{"qwen3.block_count"}},
		{"no query norm", "qwen3", func(f *tinyFile) { f.remove("blk.0.attn_q_norm.weight") }, []string{`"blk.0.attn_q_norm.weight" is missing`, "[24]"}},
		{"biases", "qwen3", func(f *tinyFile) { f.floats("blk.0.attn_q.bias", make([]float32, 144), 144) }, []string{`"blk.0.attn_q.bias" is not known`}},
		{"experts", "qwen3", func(f *tinyFile) { f.set("qwen3.expert_count", uint32(4)) }, []string{"qwen3.expert_count", "mixtures of experts"}},
		{"yarn", "qwen3", func(f *tinyFile) { f.set("qwen3.rope.scaling.type", "yarn") }, []string{`qwen3.rope.scaling.type: "yarn"`}},
		{"no norm after a branch", "gemma3", func(f *tinyFile) { f.remove("blk.0.post_ffw_norm.weight") }, []string{`"blk.0.post_ffw_norm.weight" is missing`}},
		{"window zero", "gemma3", func(f *tinyFile) { f.set("gemma3.attention.sliding_window", uint32(0)) }, []string{"gemma3.attention.sliding_window: 0"}},
		{"window of text", "gemma3", func(f *tinyFile) { f.set("gemma3.attention.sliding_window", "wide") }, []string{"gemma3.attention.sliding_window", "string"}},
		{"pattern zero", "gemma3", func(f *tinyFile) { f.set("gemma3.attention.sliding_window_pattern", uint32(0)) }, []string{"sliding_window_pattern: 0"}},
		{"local base negative", "gemma3", func(f *tinyFile) { f.set("gemma3.rope.freq_base_swa", float32(-1)) }, []string{"gemma3.rope.freq_base_swa: -1"}},
		{"capped logits", "gemma3", func(f *tinyFile) { f.set("gemma3.final_logit_softcapping", float32(30)) }, []string{"final_logit_softcapping: found 30", "not supported"}},
	} {
		t.Run(c.tiny+" "+c.name, func(t *testing.T) {
			f := &tinyFile{}
			f.metadata, f.tensors = backendtest.TinyFloat(c.tiny)
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

// TestGemmaKeys checks what the keys of local layers do to the logits.
func TestGemmaKeys(t *testing.T) {
	gemma := func(change func(f *tinyFile)) []float32 {
		f := &tinyFile{}
		f.metadata, f.tensors = backendtest.TinyFloat("gemma3")
		change(f)
		return logitsOf(t, f)
	}
	plain := gemma(func(*tinyFile) {})
	for _, c := range []struct {
		name   string
		change func(f *tinyFile)
		same   bool
	}{
		{"default local base", func(f *tinyFile) { f.set("gemma3.rope.freq_base_swa", float32(10000)) }, true},
		{"local base", func(f *tinyFile) { f.set("gemma3.rope.freq_base_swa", float32(5000)) }, false},
		{"window beyond the text", func(f *tinyFile) { f.set("gemma3.attention.sliding_window", uint32(4)) }, true},
		{"window inside the text", func(f *tinyFile) { f.set("gemma3.attention.sliding_window", uint32(3)) }, false},
		{"all layers global", func(f *tinyFile) { f.set("gemma3.attention.sliding_window_pattern", uint32(1)) }, false},
		{"no window", func(f *tinyFile) { f.set("gemma3.attention.sliding_window", nil) }, false},
		{"global base", func(f *tinyFile) { f.set("gemma3.rope.freq_base", float32(10000)) }, false},
	} {
		if same := slices.Equal(gemma(c.change), plain); same != c.same {
			t.Errorf("%s: logits equal to the plain file's: %t, want %t", c.name, same, c.same)
		}
	}
	global := gemma(func(f *tinyFile) { f.set("gemma3.attention.sliding_window_pattern", uint32(1)) })
	if none := gemma(func(f *tinyFile) { f.set("gemma3.attention.sliding_window", nil) }); !slices.Equal(global, none) {
		t.Error("without local layers the logits differ from those without a window")
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
			t := *f.tensor("token_embd.weight")
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
		"block_count", "context_length", "embedding_length", "feed_forward_length",
		"attention.head_count", "attention.head_count_kv", "attention.key_length",
		"rope.dimension_count", "vocab_size", "expert_count",
		"attention.sliding_window", "attention.sliding_window_pattern",
	}
	for i := range keys {
		f.Add(uint8(i), uint8(i), uint64(0), uint64(1))
		f.Add(uint8(i), uint8(i+1), uint64(96), uint64(math.MaxUint64))
		f.Add(uint8(i), uint8(i+2), uint64(1<<17), uint64(1<<12))
	}
	architectures := []string{"llama", "qwen2", "qwen3", "gemma3"}
	f.Fuzz(func(t *testing.T, key, which uint8, a, b uint64) {
		architecture := architectures[int(which)%len(architectures)]
		file := &tinyFile{}
		file.metadata, file.tensors = backendtest.TinyFloat(architecture)
		file.set(architecture+"."+keys[int(key)%len(keys)], a)
		file.set(architecture+"."+keys[(int(key)+1)%len(keys)], b)
		if m, err := file.load(t); err == nil && m.Shape().Vocab != 101 {
			t.Errorf("a model of shape %+v", m.Shape())
		}
	})
}
