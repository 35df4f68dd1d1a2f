//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/cublaslt"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// libraryRows is the number of rows of a step above which cuBLASLt multiplies. Up to
// a tile of our own kernel both are bounded by the bytes of the weights, which it reads
// once, and it needs no launch that rounds x before.
const libraryRows = 64

// halfScale is the factor of x in float16, whose largest number is 65504 and which a
// residual stream can exceed. x up to a million fits, and what is below 2⁻¹⁰ of it
// loses digits, as in bfloat16 everything does. The product is divided by it.
const halfScale = 1. / 16

// library is cuBLASLt, and the memory that products with it need beside their own.
//
// It multiplies matrices of one 16-bit type with a float32 sum. So it is for weights
// that are BF16 or F16 on the device: others would have to be written out as such in
// each step. x is rounded into narrow before, to the weights' type.
type library struct {
	lt *cublaslt.Library // nil: not used
	// weights says that the model has some that it can multiply, widest is the largest
	// number of columns of a tensor: what inputs and results are bounded by.
	weights bool
	widest  int
	// told are shapes whose lack of a kernel has been logged, up to maxTold.
	told map[cublaslt.Shape]bool

	cols   int        // there is memory for tensors of so many columns
	narrow driver.Ptr // bfloat16 or float16 [max rows, cols]
	up     driver.Ptr // float32 [max rows, cols], of gated products
}

// maxTold bounds the log: a server sees each number of rows of a step in its life.
const maxTold = 64

// openLibrary loads cuBLASLt if the options want it, and says in the log what
// multiplies prompts.
func (b *Backend) openLibrary() error {
	const message = "products of prompts"
	const ours = "kernels of this program"
	wanted := b.options.CuBLASLt
	if wanted == "" || wanted == CuBLASLtOff {
		b.options.Logger.Info(message, "by", ours, "cublaslt", CuBLASLtOff)
		return nil
	}
	lt, err := cublaslt.Open(b.options.CuBLASLtPath)
	var missing *cublaslt.NotFoundError
	switch {
	case err == nil:
		b.library.lt, b.library.told = lt, make(map[cublaslt.Shape]bool)
		b.options.Logger.Info(message, "by", "cuBLASLt "+lt.Version(), "cublaslt", wanted, "library", lt.Path(),
			"weights", "BF16 and F16", "rows", fmt.Sprintf("more than %d", libraryRows))
		return nil
	case wanted == CuBLASLtOn:
		return fmt.Errorf("%w: %w", ErrCuBLASLt, err)
	case errors.As(err, &missing):
		b.options.Logger.Info(message, "by", ours, "cublaslt", wanted, "reason", err)
	default:
		b.options.Logger.Warn(message, "by", ours, "cublaslt", wanted, "reason", err)
	}
	return nil
}

// close gives the handle back.
func (l *library) close() error {
	if l.lt == nil {
		return nil
	}
	err := l.lt.Close()
	l.lt = nil
	return err
}

// multiplies tells whether the library can multiply weights of such a layout.
func (l *library) multiplies(w kernels.Layout) bool {
	return l.lt != nil && w.Rows > 1 && (w.Format == kernels.BF16 || w.Format == kernels.F16)
}

// libraryMemory is what products by the library need: x, up and its workspace. It is
// 0 where there are none.
func (b *Backend) libraryMemory() int64 {
	l := &b.library
	if l.lt == nil || !l.weights || l.cols >= l.widest {
		return 0
	}
	cells := int64(b.options.MaxRows) * int64(l.widest)
	return aligned(2*cells) + aligned(4*cells) + cublaslt.WorkspaceBytes
}

// makeRoomForLibrary takes that memory. It is called when the cache is made, and takes
// nothing in steps unless there are larger tensors since.
func (b *Backend) makeRoomForLibrary() error {
	bytes := b.libraryMemory()
	if bytes == 0 {
		return nil
	}
	p, err := b.memory.take(bytes)
	if err != nil {
		return fmt.Errorf("memory for products by cuBLASLt: %w", err)
	}
	l := &b.library
	l.cols = l.widest
	cells := int64(b.options.MaxRows) * int64(l.cols)
	l.narrow = p
	l.up = l.narrow + driver.Ptr(aligned(2*cells))
	l.lt.UseWorkspace(l.up+driver.Ptr(aligned(4*cells)), cublaslt.WorkspaceBytes)
	return nil
}

// libraryShape is a product of the step's rows with an operation's matrix.
func (b *Backend) libraryShape(o *op, i int) cublaslt.Shape {
	w := o.w[i].layout
	s := cublaslt.Shape{Type: cublaslt.BF16, Rows: w.Rows, Cols: w.Cols, X: b.shape.rows, Biased: o.bias[i] != nil}
	if w.Format == kernels.F16 {
		s.Type = cublaslt.F16
	}
	return s
}

// libraryTakes tells whether the library computes an operation of the step: a product
// of many rows, outside of graphs, with weights of one type that it multiplies, and for
// whose shapes it has kernels. One that it has none for is told once, and is ours.
func (b *Backend) libraryTakes(o *op) bool {
	l := &b.library
	if l.lt == nil || b.shape.captured || b.shape.rows <= libraryRows || o.norm != nil {
		return false
	}
	switch o.kind {
	case product, addProduct, gatedProduct:
	default:
		return false
	}
	for _, w := range o.w {
		if w != nil && (!l.multiplies(w.layout) || w.layout.Format != o.w[0].layout.Format) {
			return false
		}
	}
	for i, w := range o.w {
		if w == nil {
			continue
		}
		s := b.libraryShape(o, i)
		err := l.lt.Prepare(s)
		if err == nil {
			continue
		}
		if !l.told[s] && len(l.told) < maxTold {
			l.told[s] = true
			b.options.Logger.Warn("no product by cuBLASLt: a kernel of this program computes it", "operation", o.String(), "error", err)
		}
		return false
	}
	return true
}

// launchByLibrary queues an operation's products. It returns false for what is not the
// library's.
func (b *Backend) launchByLibrary(o *op) (bool, error) {
	if b.library.lt == nil {
		return false, nil
	}
	if err := b.makeRoomForLibrary(); err != nil {
		return false, err
	}
	if !b.libraryTakes(o) {
		return false, nil
	}
	format, scale := o.w[0].layout.Format, float32(1)
	if format == kernels.F16 {
		scale = halfScale
	}
	l, n := &b.library, b.shape.rows
	if err := b.kernels.Narrow(b.stream, l.narrow, o.x.ptr(), format, scale, n*o.x.cols); err != nil {
		return true, err
	}
	for i, w := range o.w {
		if w == nil {
			break
		}
		operands := cublaslt.Operands{W: w.ptr(), X: l.narrow, Y: l.up, Bias: o.bias[i].ptr(), Alpha: 1 / scale}
		if o.dst[i] != nil { // a gated product has one result
			operands.Y = o.dst[i].ptr()
		}
		if o.kind == addProduct {
			operands.Beta = 1
		}
		if err := l.lt.Multiply(b.stream, b.libraryShape(o, i), operands); err != nil {
			return true, err
		}
	}
	if o.kind != gatedProduct {
		return true, nil
	}
	y, values := o.dst[0].ptr(), n*o.w[0].Rows()
	if o.act == backend.GELU {
		return true, b.kernels.GELUUp(b.stream, y, y, l.up, values)
	}
	return true, b.kernels.SiLUUp(b.stream, y, y, l.up, values)
}
