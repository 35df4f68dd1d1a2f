package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// config holds a model's hyperparameters, checked.
type config struct {
	name         string
	architecture string
	vocab        int // tokens of the vocabulary
	context      int // longest sequence, in tokens
	layers       int
	width        int // values of a hidden state
	hidden       int // values inside the feed-forward layer
	heads        int // query heads
	kvHeads      int // key/value heads; each serves heads/kvHeads query heads
	headDim      int // values of a head
	eps          float32
	rope         backend.Rope
}

// The largest values that are believed, several times those of the largest
// published models: activations, of which there are many rows, take memory by
// these numbers and not by the file's size.
const (
	maxContext = 1 << 28
	maxVocab   = 1 << 24
	maxWidth   = 1 << 17
	maxLayers  = 1 << 12
	maxHeads   = 1 << 12
)

// readConfig reads the hyperparameters that all architectures have, from
// the keys of the file's own, and reports every fault that it finds.
func readConfig(f *gguf.File, architecture string) (config, error) {
	r := &keyReader{file: f, prefix: architecture + "."}
	c := config{architecture: architecture}
	c.name, _ = f.Text("general.name") // only for people; a file may lack it
	c.layers = r.count("block_count", maxLayers)
	c.context = r.count("context_length", maxContext)
	c.width = r.count("embedding_length", maxWidth)
	c.hidden = r.count("feed_forward_length", maxWidth)
	c.heads = r.count("attention.head_count", maxHeads)
	c.kvHeads = r.countOr("attention.head_count_kv", maxHeads, c.heads)
	c.vocab = r.vocabulary()
	eps := r.float("attention.layer_norm_rms_epsilon")
	r.refuse("expert_count", "mixtures of experts")
	if r.err() != nil {
		return config{}, r.err()
	}

	if c.heads%c.kvHeads != 0 {
		r.faultf("attention.head_count: %d query heads cannot be shared among %d key/value heads: the first must be a multiple of the second", c.heads, c.kvHeads)
	}
	c.headDim = r.countOr("attention.key_length", maxWidth, c.width/c.heads)
	if c.headDim == c.width/c.heads && c.width%c.heads != 0 {
		r.faultf("attention.head_count: a width of %d cannot be cut into %d heads", c.width, c.heads)
	}
	if v := r.countOr("attention.value_length", maxWidth, c.headDim); v != c.headDim {
		r.faultf("attention.value_length: values of length %d beside keys of length %d are not supported", v, c.headDim)
	}
	c.eps = float32(eps)
	if !(eps >= 0 && eps < 1) {
		r.faultf("attention.layer_norm_rms_epsilon: %g is not between 0 and 1", eps)
	}
	c.rope = r.rope(c.headDim)
	return c, r.err()
}

// A keyReader reads one architecture's metadata keys and keeps the faults.
type keyReader struct {
	file   *gguf.File
	prefix string
	faults []error
}

func (r *keyReader) err() error { return errors.Join(r.faults...) }

// faultf records a fault of a key, given without the prefix.
func (r *keyReader) faultf(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("model file: "+r.prefix+format, args...))
}

// wrap records an error of package gguf, which names the key itself.
func (r *keyReader) wrap(err error) {
	r.faults = append(r.faults, fmt.Errorf("model file: %w", err))
}

// count reads a number from 1 to limit. It returns 1 for a bad one, so that the
// checks after it do not divide by zero.
func (r *keyReader) count(key string, limit int) int {
	n, err := r.file.Uint(r.prefix + key)
	switch {
	case err != nil:
		r.wrap(err)
	case n < 1 || n > uint64(limit):
		r.faultf("%s: %d is not between 1 and %d", key, n, limit)
	default:
		return int(n)
	}
	return 1
}

// countOr is count for a key that may be absent.
func (r *keyReader) countOr(key string, limit, absent int) int {
	if _, err := r.file.Uint(r.prefix + key); errors.Is(err, gguf.ErrNoKey) {
		return absent
	}
	return r.count(key, limit)
}

func (r *keyReader) float(key string) float64 {
	x, err := r.file.Float(r.prefix + key)
	if err != nil {
		r.wrap(err)
	}
	return x
}

// floatOr is float for a key that may be absent.
func (r *keyReader) floatOr(key string, absent float64) float64 {
	if _, err := r.file.Float(r.prefix + key); errors.Is(err, gguf.ErrNoKey) {
		return absent
	}
	return r.float(key)
}

// refuse records a fault if the key counts something that is not supported.
func (r *keyReader) refuse(key, what string) {
	if n, err := r.file.Uint(r.prefix + key); err == nil && n > 0 {
		r.faultf("%s: found %d: %s are not supported", key, n, what)
	}
}

// vocabulary returns the length of the token list, to which the optional key
// vocab_size must be equal.
func (r *keyReader) vocabulary() int {
	tokens, err := r.file.Texts("tokenizer.ggml.tokens")
	if err != nil {
		r.wrap(err)
		return 1
	}
	if len(tokens) < 1 || len(tokens) > maxVocab {
		r.wrap(fmt.Errorf("tokenizer.ggml.tokens: %d tokens, want 1 to %d", len(tokens), maxVocab))
		return 1
	}
	if n := r.countOr("vocab_size", maxVocab, len(tokens)); n != len(tokens) {
		r.faultf("vocab_size: %d, but tokenizer.ggml.tokens lists %d", n, len(tokens))
	}
	return len(tokens)
}

// rope reads the position embedding. Of the ways to stretch it, "linear" is a
// smaller angle per position; the factors of Llama 3 are a tensor and come
// with the weights. Keys: docs/gguf.md, section "RoPE".
func (r *keyReader) rope(headDim int) backend.Rope {
	dims := r.countOr("rope.dimension_count", maxWidth, headDim)
	base := r.base("rope.freq_base", 10000)
	if dims%2 != 0 || dims > headDim {
		r.faultf("rope.dimension_count: %d of a head's %d values cannot be rotated in pairs", dims, headDim)
	}
	factor := r.ropeFactor()
	if r.err() != nil {
		return backend.Rope{}
	}
	return backend.Rope{Dims: dims, Freqs: ropeFreqs(dims, base, factor)}
}

// base reads the base of a rope's frequencies.
func (r *keyReader) base(key string, absent float64) float64 {
	base := r.floatOr(key, absent)
	if !(base > 0) || math.IsInf(base, 0) {
		r.faultf("%s: %g is not a positive number", key, base)
	}
	return base
}

// ropeFreqs returns the angles per position of each pair, for positions that
// are stretched by a factor. [dims/2]
func ropeFreqs(dims int, base, factor float64) []float32 {
	freqs := make([]float32, dims/2)
	for i := range freqs {
		freqs[i] = float32(math.Pow(base, -2*float64(i)/float64(dims)) / factor)
	}
	return freqs
}

// ropeFactor returns by how much positions are stretched, 1 for not at all.
func (r *keyReader) ropeFactor() float64 {
	kind, err := r.file.Text(r.prefix + "rope.scaling.type")
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		r.wrap(err)
	}
	switch kind {
	case "", "none":
		// Old files have only the factor, under this name.
		return r.stretch("rope.scale_linear", 1)
	case "linear":
		return r.stretch("rope.scaling.factor", 1)
	}
	r.faultf("rope.scaling.type: %q is not supported; supported are none and linear", kind)
	return 1
}

func (r *keyReader) stretch(key string, absent float64) float64 {
	factor := r.floatOr(key, absent)
	if !(factor > 0) || math.IsInf(factor, 0) {
		r.faultf("%s: %g is not a positive number", key, factor)
		return 1
	}
	return factor
}
