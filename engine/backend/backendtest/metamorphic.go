package backendtest

import (
	"fmt"
	"math"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// longPrompt crosses blocks, steps and the segments in which backends are
// likely to cut attention.
const longPrompt = 300

// runChunks runs one sequence in steps of the given lengths, over and over.
func runChunks(r *trial, seq int, lengths ...int) {
	r.t.Helper()
	for i, done := 0, 0; done < len(r.tokens[seq]); i++ {
		n := min(lengths[i%len(lengths)], len(r.tokens[seq])-done)
		r.step(share{seq, n})
		done += n
	}
}

// eachModel runs a test with several whole models: one with weights of many
// types, and two of which layers see a window, one narrower than a tile of rows
// and one wider than a segment of positions.
func eachModel(t *testing.T, test func(t *testing.T, file *gguf.File)) {
	t.Run("llama", func(t *testing.T) { test(t, TinyFile(t)) })
	for _, window := range []uint32{7, 270} {
		t.Run(fmt.Sprintf("gemma3 window %d", window), func(t *testing.T) {
			metadata, tensors := TinyFloat("gemma3")
			for i := range metadata {
				if metadata[i].Key == "gemma3.attention.sliding_window" {
					metadata[i].Value = window
				}
			}
			test(t, File(t, metadata, tensors))
		})
	}
}

// testModel compares a whole model with the reference.
func testModel(t *testing.T, file *gguf.File, open func(t *testing.T) backend.Backend, tolerance float64) {
	got, want := newTrial(t, file, open(t), longPrompt), newTrial(t, file, NewReference(MaxRows), longPrompt)
	runChunks(got, 0, MaxRows)
	runChunks(want, 0, MaxRows)
	compare(t, got.logits[0], want.logits[0], tolerance)
}

// runBatched runs the sequences side by side: prompts of different lengths in
// one step, then one token each until all are done.
func runBatched(r *trial) {
	r.t.Helper()
	var prompts, tokens []share
	for seq := range r.tokens {
		prompts = append(prompts, share{seq, len(r.tokens[seq]) - 3})
		tokens = append(tokens, share{seq, 1})
	}
	r.step(prompts...)
	for range 3 {
		r.step(tokens...)
	}
}

// testAloneOrBatched demands the same of a sequence that runs alone and of one among
// others: the same bits, if tolerance is 0.
func testAloneOrBatched(t *testing.T, file *gguf.File, open func(t *testing.T) backend.Backend, tolerance float64) {
	lengths := []int{4, 30, 10, 19, 22}
	batched, alone := newTrial(t, file, open(t), lengths...), newTrial(t, file, open(t), lengths...)
	runBatched(batched)
	for seq := range lengths {
		runChunks(alone, seq, lengths[seq]-3, 1)
	}
	alike(t, "alone", alone, "batched", batched, tolerance)
}

// testWholeOrChunked demands the same however a prompt is cut into steps.
func testWholeOrChunked(t *testing.T, file *gguf.File, open func(t *testing.T) backend.Backend, tolerance float64) {
	whole, chunked := newTrial(t, file, open(t), longPrompt), newTrial(t, file, open(t), longPrompt)
	runChunks(whole, 0, MaxRows)
	runChunks(chunked, 0, 1, 2, 5, 16, 17, 3)
	alike(t, "whole", whole, "chunked", chunked, tolerance)
}

// Identical demands the same bits of two kinds of backend, such as one with one
// thread and one with several.
func Identical(t *testing.T, one, other func() backend.Backend) {
	eachModel(t, func(t *testing.T, file *gguf.File) { testIdentical(t, file, one(), other()) })
}

func testIdentical(t *testing.T, file *gguf.File, one, other backend.Backend) {
	lengths := []int{longPrompt, 30, 4, 19}
	trials := [2]*trial{newTrial(t, file, one, lengths...), newTrial(t, file, other, lengths...)}
	for _, r := range trials {
		for range 4 {
			r.step(share{0, 74})
		}
		r.step(share{0, 1}, share{1, 27}, share{2, 1}, share{3, 16})
		for range 3 {
			r.step(share{0, 1}, share{1, 1}, share{2, 1}, share{3, 1})
		}
	}
	identical(t, one.Name(), trials[0], other.Name(), trials[1])
}

// alike demands logits within a tolerance, or the same bits if it is 0.
func alike(t *testing.T, nameA string, a *trial, nameB string, b *trial, tolerance float64) {
	t.Helper()
	if tolerance == 0 {
		identical(t, nameA, a, nameB, b)
		return
	}
	for seq := range a.logits {
		compare(t, a.logits[seq], b.logits[seq], tolerance)
	}
}

func identical(t *testing.T, nameA string, a *trial, nameB string, b *trial) {
	t.Helper()
	for seq := range a.logits {
		if len(a.logits[seq]) != len(b.logits[seq]) || len(a.logits[seq]) == 0 {
			t.Fatalf("sequence %d: %d logits %s, %d %s", seq, len(a.logits[seq]), nameA, len(b.logits[seq]), nameB)
		}
		for i, x := range a.logits[seq] {
			if y := b.logits[seq][i]; math.Float32bits(x) != math.Float32bits(y) {
				t.Errorf("sequence %d, position %d, token %d: logit %g (%#x) %s, %g (%#x) %s", seq, i/tinyVocab, i%tinyVocab,
					x, math.Float32bits(x), nameA, y, math.Float32bits(y), nameB)
				break
			}
		}
	}
}
