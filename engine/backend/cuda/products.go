//go:build cuda && cgo && linux

package cuda

import (
	"fmt"

	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// productKey is what a product's table on the device says.
type productKey struct {
	dst     [maxShared]*tensor
	w, bias [maxShared]*weight
	y       driver.Ptr // of logits
}

// isProduct tells whether an operation is a matrix product.
func (o *op) isProduct() bool {
	switch o.kind {
	case product, addProduct, addProductNorm, gatedProduct, logits:
		return true
	}
	return false
}

func (b *Backend) productKey(o *op) productKey {
	key := productKey{dst: o.dst, w: o.w, bias: o.bias}
	if o.kind == logits {
		key.y = b.out.rows()
	}
	return key
}

// describe puts the tables of a list's products, and the angles of its ropes, on the
// device, unless they are there: once, in the first step that has them.
func (b *Backend) describe(ops []op) error {
	for i := range ops {
		o := &ops[i]
		if o.kind == addProductNorm {
			if err := b.makeRoomForSquares(o.dst[0].cols); err != nil {
				return fmt.Errorf("%v: %w", o, err)
			}
		}
		switch {
		case o.isProduct():
			key := b.productKey(o)
			if b.products[key] != nil {
				continue
			}
			p, err := b.newProduct(key)
			if err != nil {
				return fmt.Errorf("%v: %w", o, err)
			}
			b.products[key] = p
		case o.rope != nil && o.rope.data == 0 && len(o.rope.freqs) > 0:
			p, err := b.memory.take(4 * int64(len(o.rope.freqs)))
			if err != nil {
				return fmt.Errorf("%v: %w", o, err)
			}
			if err := b.loading.bytes(p, floatBytes(o.rope.freqs)); err != nil {
				return fmt.Errorf("%v: %w", o, err)
			}
			o.rope.data = uint64(p)
		}
	}
	return nil
}

// makeRoomForSquares takes the memory for the sums of squares of rows of so many values,
// which each product leaves to the next.
func (b *Backend) makeRoomForSquares(cols int) error {
	parts := kernels.NormParts(cols)
	if parts <= b.squaresParts {
		return nil
	}
	p, err := b.memory.take(4 * int64(b.options.MaxRows) * int64(parts))
	if err != nil {
		return err
	}
	b.squares, b.squaresParts = p, parts
	return nil
}

func (b *Backend) newProduct(key productKey) (*kernels.Product, error) {
	p := &kernels.Product{}
	for i, w := range key.w {
		if w == nil {
			break
		}
		p.Matrices = append(p.Matrices, kernels.Matrix{Layout: w.layout, Data: driver.Ptr(w.data)})
		bias := driver.Ptr(0)
		if key.bias[i] != nil {
			bias = driver.Ptr(key.bias[i].data)
		}
		p.Bias = append(p.Bias, bias)
		if key.dst[i] != nil {
			p.Y = append(p.Y, driver.Ptr(key.dst[i].data))
		}
	}
	if key.y != 0 {
		p.Y = append(p.Y, key.y)
	}
	var err error
	if p.Table, err = b.memory.take(kernels.TableBytes); err != nil {
		return nil, err
	}
	var table [kernels.TableBytes]byte
	p.Encode(table[:])
	return p, b.loading.bytes(p.Table, table[:])
}
