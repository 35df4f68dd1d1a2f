//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// launchAll queues the kernels of a fused list. The error names the operation.
func (b *Backend) launchAll() error {
	for i := range b.fused {
		o := &b.fused[i]
		err := b.launch(o)
		if err == nil && b.options.Synchronous {
			err = b.stream.Sync()
		}
		if err != nil {
			return fmt.Errorf("%v: %w", o, err)
		}
	}
	return nil
}

// at is the address of the step's integers from a word on.
func (b *Backend) at(word int) driver.Ptr { return b.words.device + driver.Ptr(4*word) }

func (b *Backend) launch(o *op) error {
	if done, err := b.launchByLibrary(o); done || err != nil {
		return err
	}
	k, s, n := b.kernels, b.stream, &b.shape
	switch o.kind {
	case embed:
		return k.Embed(s, o.dst[0].ptr(), o.w[0].matrix(), b.at(n.tokens()), b.drawn.tokens, n.rows, o.scale)
	case norm:
		return k.Norm(s, o.dst[0].ptr(), o.x.ptr(), o.w[0].ptr(), n.rows, o.x.cols, o.eps)
	case addNorm:
		return k.AddNorm(s, o.dst[0].ptr(), o.x.ptr(), o.w[0].ptr(), n.rows, o.x.cols, o.eps)
	case addNormNorm:
		return k.AddNormNorm(s, o.dst[1].ptr(), o.dst[0].ptr(), o.x.ptr(), o.w[0].ptr(), o.w[1].ptr(), n.rows, o.x.cols, o.eps)
	case product:
		return k.MatMul(s, b.products[b.productKey(o)], b.input(o, n.rows))
	case addProduct:
		return k.AddMatMul(s, b.products[b.productKey(o)], b.input(o, n.rows))
	case addProductNorm:
		return k.AddMatMulNorm(s, b.products[b.productKey(o)], b.input(o, n.rows), kernels.NextNorm{
			Weights: o.norm.ptr(), Scaled: o.dst[1].ptr(), Squares: b.squares,
		})
	case gatedProduct:
		gate := kernels.SiLU
		if o.act == backend.GELU {
			gate = kernels.GELU
		}
		return k.GatedMatMul(s, b.products[b.productKey(o)], b.input(o, n.rows), gate)
	case headNorm:
		return k.HeadNorm(s, o.x.ptr(), o.w[0].ptr(), n.rows, o.x.cols/o.dim, o.dim, o.eps)
	case rotate:
		return k.Rotate(s, o.x.ptr(), b.at(n.positions()), n.rows, o.x.cols/o.dim, o.dim, o.rope.onDevice())
	case store:
		heads := kernels.Heads{KV: o.keys.cols / o.dim, Dim: o.dim}
		return k.Store(s, o.kv.layer(o.layer), o.keys.ptr(), o.vals.ptr(), b.at(n.slots()), n.rows, heads)
	case finishHeads:
		heads := kernels.Heads{Q: o.x.cols / o.dim, KV: o.keys.cols / o.dim, Dim: o.dim}
		return k.FinishQKV(s, o.kv.layer(o.layer), o.x.ptr(), o.keys.ptr(), o.vals.ptr(), o.norm.ptr(), o.kNorm.ptr(),
			b.at(n.positions()), b.at(n.slots()), n.rows, heads, o.rope.onDevice(), o.eps)
	case attend:
		return b.attend(o)
	case finishAttend:
		return k.FinishAndDecode(s, o.dst[0].ptr(), o.x.ptr(), b.at(n.contexts()), b.decodeScratch, n.singles, b.attention(o), kernels.QKV{
			Key: o.keys.ptr(), Value: o.vals.ptr(), Fresh: b.at(n.fresh()), QNorm: o.norm.ptr(), KNorm: o.kNorm.ptr(), Rope: o.rope.onDevice(), Eps: o.eps,
		})
	case logits:
		return b.logits(o)
	case draw:
		return b.draw(o)
	}
	panic(fmt.Sprintf("cuda backend: operation %d", o.kind))
}

// input is what a product multiplies.
func (b *Backend) input(o *op, rows int) kernels.Input {
	in := kernels.Input{X: o.x.ptr(), Rows: rows, Eps: o.eps, Scratch: b.matMulScratch}
	switch {
	case o.rootless:
		in.Squares, in.Parts = b.squares, kernels.NormParts(o.x.cols)
	case o.kind != addProductNorm: // whose norm is that of its result
		in.Norm = o.norm.ptr()
	}
	return in
}

// attention is the layer of an operation that attends.
func (b *Backend) attention(o *op) kernels.Attention {
	heads := kernels.Heads{Q: o.x.cols / o.dim, KV: o.kv.shape.Heads, Dim: o.dim}
	return kernels.Attention{Cache: o.kv.layer(o.layer), Heads: heads, Table: b.at(b.shape.table()), MaxBlocks: b.shape.stride, Scale: o.scale, Window: o.window}
}

// attend launches the attention of single rows and that of runs; most steps have one
// of the two.
func (b *Backend) attend(o *op) error {
	n, a := &b.shape, b.attention(o)
	if n.singles > 0 {
		if err := b.kernels.Decode(b.stream, o.dst[0].ptr(), o.x.ptr(), b.at(n.contexts()), b.decodeScratch, n.singles, a); err != nil {
			return err
		}
	}
	if n.runs == 0 {
		return nil
	}
	return b.kernels.Prefill(b.stream, o.dst[0].ptr(), o.x.ptr(), b.at(n.sequences()+4*n.singles), n.runs, n.runRows, a)
}

// logits launches the products of the sampled rows. Where they are more than the
// device has room for, each part but the last is fetched before the next.
func (b *Backend) logits(o *op) error {
	if err := b.stream.Fill(b.out.device, 0, resultsHeader); err != nil {
		return err
	}
	p, vocab, most := b.products[b.productKey(o)], o.w[0].Rows(), b.logitsRows()
	for from := 0; from < b.shape.sampled; from += most {
		rows := min(most, b.shape.sampled-from)
		end := kernels.LogitsEnd{Rows: b.at(b.shape.sampledAt() + from), NotFinite: b.out.device}
		if err := b.kernels.Logits(b.stream, p, b.input(o, rows), end); err != nil {
			return err
		}
		if from+rows < b.shape.sampled {
			if err := b.out.fetch(b.stream, from, rows, vocab); err != nil {
				return err
			}
		}
	}
	return nil
}

// ptr is the tensor's address.
func (t *tensor) ptr() driver.Ptr { return driver.Ptr(t.data) }

// ptr is the weight's address, 0 of none.
func (w *weight) ptr() driver.Ptr {
	if w == nil {
		return 0
	}
	return driver.Ptr(w.data)
}

func (w *weight) matrix() kernels.Matrix { return kernels.Matrix{Layout: w.layout, Data: w.ptr()} }

func (r *rope) onDevice() kernels.Rope {
	return kernels.Rope{Dims: r.dims, Freqs: driver.Ptr(r.data), Neox: r.neox}
}
