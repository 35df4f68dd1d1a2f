package cpu

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// weight is the Weight of this backend.
type weight struct {
	rows, cols int

	// source holds the rows as they stand in the file: for looking rows up,
	// and for products of types that have no packed form. It is the file's.
	source []byte
	dtype  gguf.DType

	// packed holds the matrix in the layout of kernels/cpu, in groups of 16
	// rows; nil for types that have none.
	packed     []byte
	groupBytes int
	packer     *packer

	// vector holds a weight of one row, dequantised: norms and biases. [cols]
	vector []float32
}

// Rows implements backend.Weight.
func (w *weight) Rows() int { return w.rows }

// Cols implements backend.Weight.
func (w *weight) Cols() int { return w.cols }

// groups is the number of 16-row groups, the last of them perhaps not full.
func (w *weight) groups() int { return kernels.Groups(w.rows) }

// NewWeight implements backend.Backend.
func (b *Backend) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	w, err := b.newWeight(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return w, nil
}

func (b *Backend) newWeight(t gguf.Tensor) (*weight, error) {
	elements, cols := t.Elements(), t.Shape[0]
	if elements > math.MaxInt32*uint64(kernels.GroupRows) || cols > math.MaxInt32 {
		return nil, fmt.Errorf("shape %d is larger than the cpu backend can hold", t.Shape)
	}
	w := &weight{rows: int(elements / cols), cols: int(cols), source: t.Data, dtype: t.Type}
	// One row tells whether the type can be converted at all.
	first := make([]float32, w.cols)
	if err := gguf.Dequantize(first, t.Data[:t.Type.RowBytes(cols)], t.Type); err != nil {
		return nil, err
	}
	if w.rows == 1 {
		w.vector = first
	} else if err := b.pack(w); err != nil {
		return nil, err
	}
	b.makeRoom(w)
	return w, nil
}

// packer is a packed form and its kernel.
type packer struct {
	bytes func(rows, k int) int
	pack  func(dst, src []byte, rows, k int) error

	// form is what MatMul calls the form, for quantised rows of x.
	form kernels.Form
	// multiply is the kernel of 16-bit floats, which takes the rows of x as they are;
	// nil for the others.
	multiply func(o *kernels.Ops, out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int)
}

// packers are the types that have a packed form.
var packers = map[gguf.DType]*packer{
	gguf.Q4_0: {form: kernels.FormQ4_1, bytes: kernels.FormQ4_1.Bytes, pack: kernels.PackQ4_0},
	gguf.Q4_1: {form: kernels.FormQ4_1, bytes: kernels.FormQ4_1.Bytes, pack: kernels.PackQ4_1},
	gguf.Q4_K: {form: kernels.FormQ4_K, bytes: kernels.FormQ4_K.Bytes, pack: kernels.PackQ4_K},
	gguf.Q5_0: {form: kernels.FormQ5_0, bytes: kernels.FormQ5_0.Bytes, pack: kernels.PackQ5_0},
	gguf.Q5_1: {form: kernels.FormQ5_1, bytes: kernels.FormQ5_1.Bytes, pack: kernels.PackQ5_1},
	gguf.Q5_K: {form: kernels.FormQ5_K, bytes: kernels.FormQ5_K.Bytes, pack: kernels.PackQ5_K},
	gguf.Q6_K: {form: kernels.FormQ6_K, bytes: kernels.FormQ6_K.Bytes, pack: kernels.PackQ6_K},
	gguf.Q8_0: {form: kernels.FormQ8_0, bytes: kernels.FormQ8_0.Bytes, pack: kernels.PackQ8_0},
	gguf.F16:  {multiply: (*kernels.Ops).MatMulF16, bytes: kernels.PackedHalfBytes, pack: kernels.PackF16},
	gguf.BF16: {multiply: (*kernels.Ops).MatMulBF16, bytes: kernels.PackedHalfBytes, pack: kernels.PackBF16},
}

// quantized tells whether products with the matrix take quantised rows.
func (w *weight) quantized() bool { return w.packed != nil && w.packer.multiply == nil }

// pack fills w.packed, if the type has a packed form.
func (b *Backend) pack(w *weight) error {
	p, ok := packers[w.dtype]
	if !ok {
		return nil
	}
	t := packTask{w: w, rowBytes: len(w.source) / w.rows}
	w.packer, w.groupBytes = p, p.bytes(1, w.cols)
	var err error
	if w.packed, err = b.memory.dense(w.groups() * w.groupBytes); err != nil {
		return fmt.Errorf("allocate %d bytes: %w", w.groups()*w.groupBytes, err)
	}
	b.workers.run(&t, (w.groups()+packGroups-1)/packGroups)
	if err := t.err.Load(); err != nil {
		return fmt.Errorf("the file is damaged or not supported: %w", *err)
	}
	return nil
}

// packGroups is the number of 16-row groups that a chunk repacks.
const packGroups = 16

type packTask struct {
	w        *weight
	rowBytes int // of the source
	err      atomic.Pointer[error]
}

func (t *packTask) run(chunk int, _ *scratch) {
	group := chunk * packGroups
	row := group * kernels.GroupRows
	rows := min(packGroups*kernels.GroupRows, t.w.rows-row)
	err := t.w.packer.pack(t.w.packed[group*t.w.groupBytes:], t.w.source[row*t.rowBytes:], rows, t.w.cols)
	if err != nil {
		err = fmt.Errorf("from row %d on: %w", row, err)
		t.err.Store(&err)
	}
}

// makeRoom sizes the shared space for products with the weight.
func (b *Backend) makeRoom(w *weight) {
	switch {
	case w.vector != nil:
	case w.quantized():
		b.quants = grow(b.quants, b.maxRows*w.cols)
		b.meta = grow(b.meta, b.maxRows*w.cols/kernels.BlockColumns)
	case w.packed == nil:
		for i := range b.workers.scratch {
			s := &b.workers.scratch[i]
			s.row = grow(s.row, w.cols)
		}
	}
}

// decode sets dst to a row of the matrix. A type that cannot be decoded has
// been refused by NewWeight.
func (w *weight) decode(ops *kernels.Ops, dst []float32, row int) {
	size := len(w.source) / w.rows
	src := w.source[row*size : (row+1)*size]
	if halves, ok := viewAs[uint16](src); ok && w.dtype == gguf.F16 && littleEndian() {
		ops.F16ToF32(dst, halves)
		return
	}
	if err := gguf.Dequantize(dst, src, w.dtype); err != nil {
		panic(fmt.Sprintf("cpu backend: decode a checked weight: %v", err))
	}
}

// float32Row returns a row of the matrix, decoded into space if it must be.
func (w *weight) float32Row(ops *kernels.Ops, space []float32, row int) []float32 {
	if w.dtype == gguf.F32 && littleEndian() {
		if all, ok := viewAs[float32](w.source); ok {
			return all[row*w.cols : (row+1)*w.cols]
		}
	}
	w.decode(ops, space[:w.cols], row)
	return space[:w.cols]
}
