//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// sampleSpan is the number of tokens that one block of threads weighs; sliceBytes is
// what it leaves for the draw: sizeof(Slice) in sample.cu.
const (
	sampleSpan = 8192
	sliceBytes = 32
)

func sampleSlices(vocab int) int { return (vocab + sampleSpan - 1) / sampleSpan }

func (k *Kernels) sample(s *driver.Stream, p Sampling) error {
	switch {
	case p.Rows < 1:
		return fmt.Errorf("sample %d rows", p.Rows)
	case p.Vocab < 1 || p.Vocab > MaxVocab:
		return fmt.Errorf("sample from a vocabulary of %d tokens: 1 to %d are supported", p.Vocab, MaxVocab)
	case p.Top < 0 || p.Top > MaxTop:
		return fmt.Errorf("sample with %d log probabilities: 0 to %d are supported", p.Top, MaxTop)
	}
	// Scratch is weights, adjusted logits and slices, each [Rows, …].
	padded := (p.Vocab + 7) / 8 * 8
	weights := p.Scratch
	adjusted := weights + driver.Ptr(8*p.Rows*padded)
	slices := adjusted + driver.Ptr(4*p.Rows*padded)
	grid := [3]uint32{uint32(sampleSlices(p.Vocab)), uint32(p.Rows), 1}
	err := k.begin().pointers(p.Logits, adjusted, slices, p.Draws, p.Bias, p.Seen, p.Masks).ints(p.Vocab).
		launch(s, k.matrix.prepare, grid, 256, 0)
	if err != nil {
		return err
	}
	err = k.begin().pointers(p.Logits, adjusted, weights, slices, p.Draws).ints(p.Vocab).
		launch(s, k.matrix.weigh, grid, 256, 0)
	if err != nil {
		return err
	}
	return k.begin().pointers(p.Logits, adjusted, weights, slices).ints(sampleSlices(p.Vocab)).
		pointers(p.Draws, p.Masks, p.Drawn).ints(p.Vocab, p.Top).
		launch(s, k.matrix.collect, [3]uint32{uint32(p.Rows), 1, 1}, 1024, 0)
}
