//go:build cuda && cgo && linux

package cuda

import (
	"errors"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// drawRows is the number of rows that are drawn from at once: a row takes three times
// the memory of its logits.
const drawRows = 64

// drawn is the device's memory for drawing.
type drawn struct {
	vocab   int        // it is large enough for
	scratch driver.Ptr // of the kernels, for up to drawRows rows
	tokens  driver.Ptr // what the last step drew: [rows, kernels.DrawnBytes(top)] bytes
	stride  int        // words from one of them to the next
	read    kernels.Drawn
	result  []sample.Token // what Wait has returned
}

// drawMemory is what drawing from rows of a vocabulary takes.
func (b *Backend) drawMemory(vocab int) (scratch, tokens int64) {
	return kernels.SampleScratch(min(b.logitsRows(), drawRows), vocab), int64(b.logitsRows() * kernels.DrawnBytes(kernels.MaxTop))
}

// DrawLimits implements backend.Drawer.
func (b *Backend) DrawLimits() (rows, logprobs int) { return b.logitsRows(), kernels.MaxTop }

// Draw implements backend.Drawer.
func (b *Backend) Draw(w backend.Weight, x backend.Tensor) {
	matrix := w.(*weight)
	if len(b.batch.Draws) == 0 {
		return
	}
	b.list.add(op{kind: logits, w: [maxShared]*weight{matrix}, x: x.(*tensor)})
	b.list.add(op{kind: draw, w: [maxShared]*weight{matrix}})
	b.err = errors.Join(b.err, b.makeRoomToDraw(matrix.Rows()))
}

// makeRoomToDraw takes the memory that drawing from such rows needs.
func (b *Backend) makeRoomToDraw(vocab int) error {
	if b.drawn.vocab >= vocab && b.out.holds(b.logitsBytes(vocab)) {
		return nil
	}
	return b.entered(func() error {
		if err := b.makeRoomOnDevice(b.logitsBytes(vocab)); err != nil {
			return err
		}
		scratch, tokens := b.drawMemory(vocab)
		err := errors.Join(b.stream.Sync(), b.dropGraphs())
		if err != nil {
			return err
		}
		if b.drawn.scratch, err = b.memory.take(scratch); err != nil {
			return err
		}
		if b.drawn.tokens, err = b.memory.take(tokens); err != nil {
			return err
		}
		for i := range b.flights {
			if err := b.flights[i].drawn.replace(b.device, int(tokens)); err != nil {
				return err
			}
		}
		b.drawn.vocab = vocab
		return nil
	})
}

// draw launches the drawing from all of the step's logits.
func (b *Backend) draw(o *op) error {
	n, vocab, pairs := &b.shape, o.w[0].Rows(), b.at(b.shape.words())
	for from := 0; from < n.draws; from += drawRows {
		err := b.kernels.Sample(b.stream, kernels.Sampling{
			Logits: b.out.rows() + driver.Ptr(4*from*vocab), Rows: min(drawRows, n.draws-from), Vocab: vocab,
			Draws: b.at(n.drawsAt() + drawWords*from), Bias: pairs, Seen: pairs,
			Scratch: b.drawn.scratch, Drawn: b.drawn.tokens + driver.Ptr(from*kernels.DrawnBytes(n.top)), Top: n.top,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tokensOf reads what a flight has brought.
func (b *Backend) tokensOf(f *flight) ([]sample.Token, error) {
	d, size := &b.drawn, kernels.DrawnBytes(f.top)
	d.result = d.result[:0]
	for i := range f.draws {
		d.read.Decode(f.drawn.bytes()[i*size:])
		if d.read.NotFinite {
			return nil, backend.ErrNotFinite
		}
		token := sample.Token{ID: d.read.Token, Logprob: d.read.Logprob}
		if n := len(d.read.Top); n > 0 {
			token.Top = make([]sample.Logprob, n) // the reader keeps it
			for j, t := range d.read.Top {
				token.Top[j] = sample.Logprob{ID: t.Token, Value: t.Logprob}
			}
		}
		d.result = append(d.result, token)
	}
	return d.result, nil
}
