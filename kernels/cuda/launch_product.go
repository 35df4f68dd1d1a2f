//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// productMode is what becomes of a product. The numbers are those of matmul.cuh.
type productMode int

const (
	modeSet      productMode     = iota // y = x·Wᵀ (+ bias)
	modeAdd                             // y += x·Wᵀ (+ bias)
	modeGated                           // y = gate(x·W₀ᵀ) ⊙ (x·W₁ᵀ); plus the gate's number
	modeGatedByY = modeGated + 2        // y = gate(y) ⊙ (x·Wᵀ); plus the gate's number
)

// productEnd is a product's mode and what the logits need beside.
type productEnd struct {
	mode productMode
	LogitsEnd
	next NextNorm
}

// isGated tells whether a block computes two matrices at once.
func (e productEnd) isGated() bool { return e.mode >= modeGated && e.mode < modeGatedByY }

// family is a group of kernels with the same geometry: a block computes rows of the
// matrices for tokens, rows of x, in steps of so many columns.
type family struct {
	vector                bool // matmul_vector.cu's, or those of matmul_tile.cuh
	function              *driver.Function
	threads, rows, tokens int
	step                  int
	// busy is the number of blocks for each multiprocessor up to which the columns are
	// divided among blocks.
	busy int
	// partial is the number of floats that a block leaves of a part of the columns.
	partial int
}

// Blocks for each multiprocessor up to which columns are divided. A block of the vector
// kernel has 16 KiB of codes under way: some of them cover the latency of memory
// (H200: 4.8 TB/s · 0.6 µs / 132 = 22 KiB).
const (
	vectorBusy = 4
	tileBusy   = 2
)

// choose picks the kernels for a number of rows of x.
func (k *Kernels) choose(p *Product, rows int) family {
	m := &k.matrix
	if rows <= numVectorRows || p.has(F32) {
		i, tokens := 0, 1
		for tokens < min(rows, numVectorRows) {
			i, tokens = i+1, 2*tokens
		}
		rows := 32
		if tokens == 4 {
			rows = 16
		}
		return family{vector: true, function: m.vector[i], threads: 256, rows: rows, tokens: tokens, step: 1024, busy: vectorBusy, partial: vectorPartial}
	}
	f := family{threads: 128, rows: tileRows, busy: tileBusy}
	switch {
	case rows <= 8:
		f.function, f.tokens, f.step = m.skinny[0], 8, skinnyStep
	case rows <= 16:
		f.function, f.tokens, f.step = m.skinny[1], 16, skinnyStep
	default:
		f.function, f.tokens, f.step = m.tile, 64, tileStep
	}
	f.partial = f.threads * (f.rows*f.tokens/f.threads + f.tokens/8)
	return f
}

const (
	// numVectorRows is the most rows of x that the vector kernel computes at once.
	numVectorRows = 4
	// vectorPartial is two values for each of 256 threads.
	vectorPartial = 512
	// skinnyStep and tileStep are the columns of a stage of shared memory.
	skinnyStep, tileStep = 128, 64
	// tileRows is the number of rows of a matrix that a block of theirs computes.
	tileRows = 128
	// maxShared is the most dynamic shared memory that a launch asks for: with what is
	// static, it stays below the least that a device has for a block, 99 KiB (compute
	// capability 8.9).
	maxShared = 96 << 10
)

// shared is the dynamic shared memory of a block: two stages of rows of weights and of
// tokens, as Stage in matmul_tile.cuh lays them out.
func (f family) shared(p *Product) int {
	if f.vector {
		return 0 // its shared memory is static
	}
	most := 0
	for _, m := range p.Matrices {
		t := &forms[m.Format]
		codes := f.step/unit*t.codes + 16
		if m.Format <= BF16 {
			codes += 16
		}
		scales := 0
		switch {
		case t.perScale == unit:
			scales = f.step / unit * t.scales
		case t.perScale > 0:
			scales = t.scales
		}
		most = max(most, f.rows*(codes+f.step/unit*t.high+scales))
	}
	return 2 * (most + 4*(f.tokens*(f.step+16)+f.step))
}

func (p *Product) has(f Format) bool {
	for _, m := range p.Matrices {
		if m.Format == f {
			return true
		}
	}
	return false
}

func (k *Kernels) gated(s *driver.Stream, p *Product, in Input, g Gate) error {
	if len(p.Matrices) != 2 || len(p.Y) != 1 || p.Matrices[0].Rows != p.Matrices[1].Rows {
		return fmt.Errorf("gated product: %d matrices and %d results: it has two matrices of the same rows, and one result", len(p.Matrices), len(p.Y))
	}
	gate, up := p.Matrices[0], p.Matrices[1]
	if in.Rows <= numVectorRows || gate.Format == up.Format || p.has(F32) {
		return k.product(s, p, in, productEnd{mode: modeGated + productMode(g)})
	}
	// A block of the tensor core kernels knows one format. Y is the gate's result first.
	one := Product{Table: p.Table, Matrices: p.Matrices[:1], Y: p.Y}
	if err := k.product(s, &one, in, productEnd{mode: modeSet}); err != nil {
		return err
	}
	one.Table, one.Matrices = p.Table+matBytes, p.Matrices[1:]
	return k.product(s, &one, in, productEnd{mode: modeGatedByY + productMode(g)})
}

// product launches one product.
func (k *Kernels) product(s *driver.Stream, p *Product, in Input, end productEnd) error {
	if err := p.check(in); err != nil {
		return err
	}
	if (in.Squares != 0 || end.next.Weights != 0) && !p.Tiled(in.Rows) {
		return fmt.Errorf("product of %d rows between norms: it is for more than %d rows and matrices that are not F32", in.Rows, MaxNormRows)
	}
	f := k.choose(p, in.Rows)
	cols := p.Matrices[0].Cols
	blocks := 0
	switch {
	case end.isGated() && f.vector:
		blocks = over(p.Matrices[0].Rows, f.rows)
	case end.isGated(): // half of a tile's rows are the gate's
		blocks = over(p.Matrices[0].Rows, f.rows/2)
	default:
		for _, m := range p.Matrices {
			blocks += over(m.Rows, f.rows)
		}
	}
	groups := over(in.Rows, f.tokens)
	splits := max(1, min(f.busy*k.processors/(blocks*groups), over(cols, f.step)))
	counters := in.Scratch
	partials := in.Scratch + driver.Ptr(k.counterBytes())
	a := k.begin().
		pointers(p.Table).ints(len(p.Matrices)).
		pointers(in.X, end.Rows).ints(in.Rows, cols).
		pointers(in.Norm).floats(in.Eps).
		ints(int(end.mode)).floats(end.Softcap).pointers(end.NotFinite).
		pointers(partials, counters)
	if f.function == k.matrix.tile {
		a.pointers(in.Squares).ints(in.Parts).pointers(end.next.Weights, end.next.Scaled, end.next.Squares)
	}
	return a.launch(s, f.function, [3]uint32{uint32(blocks), uint32(splits), uint32(groups)}, f.threads, f.shared(p))
}

// check finds what would be undefined on the device.
func (p *Product) check(in Input) error {
	switch n := len(p.Matrices); {
	case n < 1 || n > MaxMatrices:
		return fmt.Errorf("product of %d matrices: 1 to %d are supported", n, MaxMatrices)
	case in.Rows < 1:
		return fmt.Errorf("product of %d rows", in.Rows)
	case in.Norm != 0 && in.Rows > MaxNormRows:
		return fmt.Errorf("product of %d rows with their norm: it is for up to %d rows; norm them before", in.Rows, MaxNormRows)
	}
	for _, m := range p.Matrices {
		if m.Cols != p.Matrices[0].Cols {
			return fmt.Errorf("product of matrices of %d and %d columns: they share their input", p.Matrices[0].Cols, m.Cols)
		}
	}
	return nil
}

// counterBytes is one counter for each block that divides columns with others.
func (k *Kernels) counterBytes() int64 {
	return (4*int64(k.processors)*max(vectorBusy, tileBusy) + 255) &^ 255
}

// matMulScratch is the counters, and what the blocks leave of their parts: where columns
// are divided, there are at most busy blocks for each multiprocessor.
func (k *Kernels) matMulScratch() int64 {
	largest := 0
	for _, f := range []family{
		{busy: vectorBusy, partial: vectorPartial},
		{busy: tileBusy, partial: 128 * (64 + 8)},
	} {
		largest = max(largest, f.busy*f.partial)
	}
	return k.counterBytes() + 4*int64(largest)*int64(k.processors)
}

// over is n/d rounded up.
func over(n, d int) int { return (n + d - 1) / d }

func (k *Kernels) embedRows(s *driver.Stream, y driver.Ptr, table Matrix, tokens, drawn driver.Ptr, rows int, scale float32) error {
	if rows < 1 {
		return fmt.Errorf("embed %d rows", rows)
	}
	a := k.begin().pointers(y)
	for plane := range NumPlanes {
		a.pointers(table.Data + driver.Ptr(table.Offset(plane)))
	}
	return a.ints(int(table.Format), table.Rows, table.Cols).pointers(tokens, drawn).floats(scale).
		launch(s, k.matrix.embed, [3]uint32{uint32(over(table.Cols, embedColumns)), uint32(rows), 1}, 128, 0)
}

// embedColumns is what a block of embed writes: 4 columns for each of 128 threads.
const embedColumns = 512
