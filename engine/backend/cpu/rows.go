package cpu

import (
	"math"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// Estimated nanoseconds of the row operations for one value. They only decide
// how work is cut, not its result.
const (
	embedCost  = 4.0
	normCost   = 0.15
	rotateCost = 0.2
)

// rowRange is the part of rows that a chunk stands for.
func rowRange(chunk, size, rows int) (from, to int) {
	return chunk * size, min((chunk+1)*size, rows)
}

// overRows runs a task whose chunks are runs of size rows; size is set through
// the pointer, which is the task's own field.
func (b *Backend) overRows(t task, size *int, cost float64) {
	rows := b.batch.Rows()
	*size = b.workers.chunkSize(rows, cost)
	b.workers.run(t, (rows+*size-1) / *size)
}

type embedTask struct {
	b     *Backend
	size  int
	dst   *tensor
	table *weight
	scale float32
}

// Embed implements backend.Backend.
func (b *Backend) Embed(dst backend.Tensor, table backend.Weight, scale float32) {
	b.embedTask = embedTask{b: b, dst: overwritten(dst), table: table.(*weight), scale: scale}
	b.overRows(&b.embedTask, &b.embedTask.size, embedCost*float64(dst.Cols()))
}

func (t *embedTask) run(chunk int, _ *scratch) {
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		row := t.dst.row(r)
		t.table.lookUp(row, int(t.b.batch.Tokens[r]))
		if t.scale != 1 {
			t.b.ops.Scale(row, t.scale)
		}
	}
}

// normTask serves Norm, and HeadNorm as the norm of shorter rows.
type normTask struct {
	b      *Backend
	size   int
	dst, x *tensor
	w      []float32
	eps    float32
}

// Norm implements backend.Backend.
func (b *Backend) Norm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	out, cost := overwritten(dst), normCost
	if out.quantized() {
		cost += quantizeCost
	}
	b.normTask = normTask{b: b, dst: out, x: x.(*tensor), w: w.(*weight).vector, eps: eps}
	b.overRows(&b.normTask, &b.normTask.size, cost*float64(x.Cols()))
	out.written(b.batch.Rows(), out.quantized())
}

// HeadNorm implements backend.Backend.
func (b *Backend) HeadNorm(x backend.Tensor, w backend.Weight, eps float32) {
	b.Norm(x, x, w, eps)
}

// addNormTask is AddNorm.
type addNormTask struct {
	b      *Backend
	size   int
	dst, x *tensor
	w      []float32
	eps    float32
}

// AddNorm implements backend.Backend.
func (b *Backend) AddNorm(dst, x backend.Tensor, w backend.Weight, eps float32) {
	b.addNormTask = addNormTask{b: b, dst: overwritten(dst), x: x.(*tensor), w: w.(*weight).vector, eps: eps}
	b.overRows(&b.addNormTask, &b.addNormTask.size, 2*normCost*float64(x.Cols()))
}

func (t *addNormTask) run(chunk int, s *scratch) {
	s.row = grow(s.row, t.x.cols)
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		t.b.ops.RMSNorm(s.row, t.x.row(r), t.w, t.eps)
		t.b.ops.Add(t.dst.row(r), s.row)
	}
}

func (t *normTask) run(chunk int, _ *scratch) {
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		dst, x := t.dst.row(r), t.x.row(r)
		for n := len(t.w); len(x) > 0; dst, x = dst[n:], x[n:] {
			t.b.ops.RMSNorm(dst[:n], x[:n], t.w, t.eps)
		}
		if t.dst.quantized() {
			t.dst.quantize(t.b.ops, r, 0, t.dst.cols)
		}
	}
}

// angles holds the cosines and sines of a rope for each row of the step: all
// layers share them.
type angles struct {
	freqs    *float32 // the rope's frequencies, by identity
	valid    bool     // in this step
	pairs    int
	cos, sin []float32 // [rows, pairs]
}

// anglesOf returns the angles of a rope, computed at its first use in a step.
func (b *Backend) anglesOf(freqs []float32) *angles {
	var a *angles
	for i := range b.angles {
		if b.angles[i].freqs == &freqs[0] {
			a = &b.angles[i]
		}
	}
	if a == nil {
		b.angles = append(b.angles, angles{freqs: &freqs[0], pairs: len(freqs)})
		a = &b.angles[len(b.angles)-1]
	}
	if !a.valid {
		a.fill(freqs, b.batch.Positions)
	}
	return a
}

func (a *angles) fill(freqs []float32, positions []int32) {
	a.cos = grow(a.cos, len(positions)*a.pairs)
	a.sin = grow(a.sin, len(positions)*a.pairs)
	for r, position := range positions {
		for i, freq := range freqs {
			// The angle may be thousands of turns, so its product is kept in float64.
			sin, cos := math.Sincos(float64(position) * float64(freq))
			a.cos[r*a.pairs+i], a.sin[r*a.pairs+i] = float32(cos), float32(sin)
		}
	}
	a.valid = true
}

type rotateTask struct {
	b       *Backend
	size    int
	x       *tensor
	headDim int
	neox    bool
	angles  *angles
}

// Rotate implements backend.Backend.
func (b *Backend) Rotate(x backend.Tensor, headDim int, r backend.Rope) {
	if len(r.Freqs) == 0 {
		return
	}
	b.rotateTask = rotateTask{b: b, x: overwritten(x), headDim: headDim, neox: r.Neox, angles: b.anglesOf(r.Freqs)}
	b.overRows(&b.rotateTask, &b.rotateTask.size, rotateCost*float64(x.Cols()))
}

func (t *rotateTask) run(chunk int, _ *scratch) {
	from, to := rowRange(chunk, t.size, t.b.batch.Rows())
	for r := from; r < to; r++ {
		at := r * t.angles.pairs
		cos, sin := t.angles.cos[at:at+t.angles.pairs], t.angles.sin[at:at+t.angles.pairs]
		if t.neox {
			t.b.ops.RopeHalves(t.x.row(r), cos, sin, t.headDim)
		} else {
			t.b.ops.RopePairs(t.x.row(r), cos, sin, t.headDim)
		}
	}
}
