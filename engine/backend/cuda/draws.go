//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// pairWords is the size of a token with a bias, or with a count.
const pairWords = 2

// drawing is s as the shape of a batch whose tokens are drawn on the device.
func (s shape) drawing(b *backend.Batch) shape {
	s.draws = s.sampled
	for i := range b.Draws {
		if n := b.Draws[i].Logprobs; n > 0 {
			s.top = max(s.top, powerOfTwo(n))
		}
	}
	return s
}

// pairs is the number of a batch's pairs.
func pairs(b *backend.Batch) int {
	n := 0
	for i := range b.Draws {
		n += len(b.Draws[i].Bias) + len(b.Draws[i].Seen)
	}
	return n
}

// fillDraws writes a batch's draws and their pairs. Rows that pad the batch are not
// drawn from.
func (l integers) fillDraws(w words, b *backend.Batch) {
	next := 0
	pair := func(id int32, value uint32) {
		at := l.words() + pairWords*next
		w.set(at, id)
		w.set(at+1, int32(value))
		next++
	}
	for i := range l.draws {
		encoded := kernels.Draw{Skip: true}
		if i < len(b.Draws) {
			d := &b.Draws[i]
			encoded = drawOf(d)
			encoded.Bias = kernels.Part{From: next, Len: len(d.Bias)}
			encoded.Seen = kernels.Part{From: next + len(d.Bias), Len: len(d.Seen)}
			for _, p := range d.Bias {
				pair(p.ID, math.Float32bits(p.Value))
			}
			for _, p := range d.Seen {
				pair(p.ID, uint32(p.Count))
			}
		}
		encoded.Encode(w[4*(l.drawsAt()+drawWords*i):])
	}
}

// fillDrawn names the tokens of a batch that the step before draws by the word at which
// it leaves them; stride is the number of words from one to the next.
func (l integers) fillDrawn(w words, b *backend.Batch, stride int) {
	for row, token := range b.Tokens {
		if token < 0 {
			w.set(l.tokens()+row, -1-(-1-token)*int32(stride))
		}
	}
}

// drawOf is a draw in the kernels' words, but for its pairs.
func drawOf(d *sample.Draw) kernels.Draw {
	return kernels.Draw{
		// A device's integers have 32 bits, and no vocabulary is larger than this.
		Temperature: d.Temperature, TopK: min(d.TopK, kernels.MaxVocab), TopP: d.TopP, MinP: d.MinP,
		RepetitionPenalty: d.RepetitionPenalty, PresencePenalty: d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty,
		Mask: -1, Noise: d.Noise(), Logprobs: d.Logprobs,
	}
}
