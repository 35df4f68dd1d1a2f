// Package sim is a simulated device: it computes nothing and takes its time, for
// load tests and for authors of plugins. Thousands of sequences run on it at
// once, and their texts are the same every time.
//
// It is a whole model.Model and not a backend.Backend. A backend multiplies the
// matrices of a model file, which is the cost that a simulation leaves out;
// above Forward nothing is simulated: the engine schedules, pages and samples as
// it does for a real model. To find its faults, a step checks that the batch is
// consistent, down to the slot of each row.
package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
)

// Model is the simulated device with its text.
type Model struct {
	options           Options
	blocks, blockSize int // of the reserved cache; 0 before Reserve
	random            uint64
	closed            bool
	logits            []float32 // the last step's. [sampled rows, Vocab]
}

var _ model.Model = (*Model)(nil)

// New makes a device.
func New(o Options) (*Model, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Model{options: o.withDefaults(), random: o.Seed}, nil
}

// Shape describes the device. Its cache takes no memory.
func (m *Model) Shape() model.Shape {
	return model.Shape{
		Name:         "sim",
		Architecture: "sim",
		Device:       "simulated device",
		Vocab:        m.options.Vocab,
		Context:      m.options.Context,
		MaxRows:      m.options.MaxRows,
	}
}

// Reserve remembers the cache's size, to check the batches against it. Nothing
// is kept for a position: the text does not depend on what came before the last
// token.
func (m *Model) Reserve(blocks, blockSize int) error {
	const maxSlots = 1 << 31 // what a batch's int32 can name
	switch {
	case m.closed:
		return errClosed
	case m.blocks > 0:
		return errors.New("simulated device: the cache is reserved already")
	case blocks < 1 || blockSize < 1:
		return fmt.Errorf("simulated device: %d blocks of %d positions are not a cache", blocks, blockSize)
	case blocks > maxSlots/blockSize:
		return fmt.Errorf("simulated device: %d blocks of %d positions are more than %d slots", blocks, blockSize, int64(maxSlots))
	}
	m.blocks, m.blockSize = blocks, blockSize
	return nil
}

var errClosed = errors.New("simulated device: closed")

// Forward takes the time of a step and writes the logits of the sampled rows. A
// row's logits depend on its token and position alone, never on the batch.
func (m *Model) Forward(b *backend.Batch) ([]float32, error) {
	if m.closed {
		return nil, errClosed
	}
	if err := m.check(b); err != nil {
		return nil, fmt.Errorf("simulated device: %w", err)
	}
	vocab := m.options.Vocab
	n := len(b.Sample) * vocab
	if n > cap(m.logits) {
		m.logits = make([]float32, n)
	}
	m.logits = m.logits[:n]
	for i, row := range b.Sample {
		writeLogits(m.logits[i*vocab:(i+1)*vocab], b.Tokens[row], b.Positions[row], m.options.EOS)
	}
	m.options.Sleep(m.duration(b))
	return m.logits, nil
}

// duration is the time of a step; see Options.
func (m *Model) duration(b *backend.Batch) time.Duration {
	var prefill int
	for _, s := range b.Seqs {
		if s.Len > 1 {
			prefill += int(s.Len)
		}
	}
	o := &m.options
	m.random += gamma
	jitter, _ := bits.Mul64(mix(m.random), uint64(o.Jitter))
	return o.StepBase + time.Duration(prefill)*o.PrefillPerToken +
		time.Duration(len(b.Seqs))*o.PerSequence + time.Duration(jitter)
}

// Close ends the device; it may be called twice.
func (m *Model) Close() error {
	m.closed, m.logits = true, nil
	return nil
}

// gamma is the step of SplitMix64, whose next number is mix of a sum of them.
const gamma = 0x9E3779B97F4A7C15

// mix scatters the bits of x. Source: the output function of SplitMix64, Steele
// et al., Fast Splittable Pseudorandom Number Generators, OOPSLA 2014,
// https://doi.org/10.1145/2660193.2660195, with the constants of
// https://prng.di.unimi.it/splitmix64.c.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
