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

	// packed holds the matrix in the layout of kernels/cpu, in groups of 16
	// rows: for products, and for looking rows up. Nil for F32.
	packed     []byte
	groupBytes int
	packer     *packer

	// floats holds a matrix of F32. [rows, cols]
	floats []float32

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

// newWeight copies all that it needs of the tensor's data, which is a view of a
// file: the file may change or vanish afterwards.
func (b *Backend) newWeight(t gguf.Tensor) (*weight, error) {
	elements, cols := t.Elements(), t.Shape[0]
	if elements > math.MaxInt32*uint64(kernels.GroupRows) || cols > math.MaxInt32 {
		return nil, fmt.Errorf("shape %d is larger than the cpu backend can hold", t.Shape)
	}
	w := &weight{rows: int(elements / cols), cols: int(cols)}
	var err error
	switch {
	case w.rows == 1:
		w.vector = make([]float32, w.cols)
		err = gguf.Guard(func() error { return gguf.Dequantize(w.vector, t.Data, t.Type) })
	case t.Type == gguf.F32:
		err = b.copyFloats(w, t)
	default:
		err = b.pack(w, t)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// copyFloats fills w.floats.
func (b *Backend) copyFloats(w *weight, t gguf.Tensor) error {
	region, err := b.memory.share(4 * w.rows * w.cols)
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", 4*w.rows*w.cols, err)
	}
	var ok bool
	if w.floats, ok = viewAs[float32](region); !ok {
		panic("cpu backend: memory is not aligned")
	}
	return gguf.Guard(func() error { return gguf.Dequantize(w.floats, t.Data, t.Type) })
}

// packer is a packed form and its kernel.
type packer struct {
	bytes  func(rows, k int) int
	pack   func(dst, src []byte, rows, k int) error
	unpack func(dst []float32, group []byte, r int) // a row of a group

	// form is what MatMul calls the form, for quantised rows of x.
	form kernels.Form
	// multiply is the kernel of 16-bit floats, which takes the rows of x as they are;
	// nil for the others.
	multiply func(o *kernels.Ops, out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int)
}

// packers are the types that have a packed form.
var packers = map[gguf.DType]*packer{
	gguf.Q4_0: quantized(kernels.FormQ4_1, kernels.PackQ4_0),
	gguf.Q4_1: quantized(kernels.FormQ4_1, kernels.PackQ4_1),
	gguf.Q4_K: quantized(kernels.FormQ4_K, kernels.PackQ4_K),
	gguf.Q5_0: quantized(kernels.FormQ5_0, kernels.PackQ5_0),
	gguf.Q5_1: quantized(kernels.FormQ5_1, kernels.PackQ5_1),
	gguf.Q5_K: quantized(kernels.FormQ5_K, kernels.PackQ5_K),
	gguf.Q6_K: quantized(kernels.FormQ6_K, kernels.PackQ6_K),
	gguf.Q8_0: quantized(kernels.FormQ8_0, kernels.PackQ8_0),
	gguf.F16:  {multiply: (*kernels.Ops).MatMulF16, bytes: kernels.PackedHalfBytes, pack: kernels.PackF16, unpack: kernels.UnpackRowF16},
	gguf.BF16: {multiply: (*kernels.Ops).MatMulBF16, bytes: kernels.PackedHalfBytes, pack: kernels.PackBF16, unpack: kernels.UnpackRowBF16},
}

func quantized(form kernels.Form, pack func(dst, src []byte, rows, k int) error) *packer {
	return &packer{form: form, bytes: form.Bytes, pack: pack, unpack: form.UnpackRow}
}

// quantized tells whether products with the matrix take quantised rows.
func (w *weight) quantized() bool { return w.packed != nil && w.packer.multiply == nil }

// pack fills w.packed.
func (b *Backend) pack(w *weight, source gguf.Tensor) error {
	p, ok := packers[source.Type]
	if !ok {
		return fmt.Errorf("type %s is not supported; use F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K", source.Type)
	}
	t := packTask{w: w, source: source.Data, rowBytes: len(source.Data) / w.rows}
	w.packer, w.groupBytes = p, p.bytes(1, w.cols)
	var err error
	if w.packed, err = b.memory.share(w.groups() * w.groupBytes); err != nil {
		return fmt.Errorf("allocate %d bytes: %w", w.groups()*w.groupBytes, err)
	}
	b.workers.run(&t, (w.groups()+packGroups-1)/packGroups)
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

// packGroups is the number of 16-row groups that a chunk repacks.
const packGroups = 16

type packTask struct {
	w        *weight
	source   []byte // the tensor's data
	rowBytes int    // of the source
	err      atomic.Pointer[error]
}

func (t *packTask) run(chunk int, _ *scratch) {
	group := chunk * packGroups
	row := group * kernels.GroupRows
	rows := min(packGroups*kernels.GroupRows, t.w.rows-row)
	err := gguf.Guard(func() error {
		err := t.w.packer.pack(t.w.packed[group*t.w.groupBytes:], t.source[row*t.rowBytes:], rows, t.w.cols)
		if err != nil {
			return fmt.Errorf("from row %d on: %w: the file is damaged or not supported", row, err)
		}
		return nil
	})
	if err != nil {
		t.err.Store(&err)
	}
}

// lookUp sets dst to a row of the matrix.
func (w *weight) lookUp(dst []float32, row int) {
	if w.packed == nil {
		copy(dst, w.floats[row*w.cols:(row+1)*w.cols])
		return
	}
	group := row / kernels.GroupRows
	w.packer.unpack(dst[:w.cols], w.packed[group*w.groupBytes:(group+1)*w.groupBytes], row%kernels.GroupRows)
}
