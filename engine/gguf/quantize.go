package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Quantize converts the file's matrices of floats to Q8_0, some at once. It is
// for whoever opened the file, before anyone else reads it.
func (f *File) Quantize(workers int) error {
	releases := make([]func() error, len(f.Tensors))
	err := Each(f.Tensors, workers, func(i int, t *Tensor) (err error) {
		source := t.Data
		if releases[i], err = t.Quantize(); releases[i] != nil && f.mapped {
			Forget(source)
		}
		return err
	})
	unmap := f.unmap
	f.unmap = func(data []byte) error {
		var faults []error
		for _, release := range releases {
			if release != nil {
				faults = append(faults, release())
			}
		}
		if unmap != nil {
			faults = append(faults, unmap(data))
		}
		return errors.Join(faults...)
	}
	return err
}

// Quantize converts a matrix of floats to Q8_0, in memory that release gives
// back. Others are left as they are, with no release: vectors, types that are
// quantised, and rows that are not whole blocks.
func (t *Tensor) Quantize() (release func() error, err error) {
	isFloat := t.Type == F32 || t.Type == F16 || t.Type == BF16
	if !isFloat || len(t.Shape) < 2 || t.Shape[0]%uint64(Q8_0.BlockLen()) != 0 {
		return nil, nil
	}
	cols := t.Shape[0]
	rows, from, to := t.Elements()/cols, t.Type.RowBytes(cols), Q8_0.RowBytes(cols)
	data, release, err := Memory(rows * to)
	if err != nil {
		return nil, err
	}
	values := make([]float32, cols)
	for row := range rows {
		err := Dequantize(values, t.Data[row*from:(row+1)*from], t.Type)
		if err == nil {
			err = QuantizeQ8_0(data[row*to:(row+1)*to], values)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("row %d: %w", row, err), release())
		}
	}
	t.Type, t.Data = Q8_0, data
	return release, nil
}

// Each calls change for every tensor, some at once, and returns the fault of the
// first tensor in order that has one.
func Each(tensors []Tensor, workers int, change func(i int, t *Tensor) error) error {
	faults := make([]error, len(tensors))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range max(workers, 1) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tensors); i = int(next.Add(1)) - 1 {
				faults[i] = change(i, &tensors[i])
			}
		})
	}
	wait.Wait()
	for i, err := range faults {
		if err != nil {
			return fmt.Errorf("tensor %q: %w", tensors[i].Name, err)
		}
	}
	return nil
}

// QuantizeQ8_0 converts values, whole blocks of 32, to Q8_0: a scale of 1/127 of
// the largest magnitude as f16, and each value divided by the scale, rounded to
// the nearest integer, halves away from zero. Results are bit for bit those of
// ggml's quantize_row_q8_0_ref and of the Python package gguf. Values that are
// not finite, or that are too large for the scale, are an error.
func QuantizeQ8_0(dst []byte, src []float32) error {
	const block = 32
	if len(src)%block != 0 || uint64(len(dst)) != Q8_0.RowBytes(uint64(len(src))) {
		return fmt.Errorf("quantize %d values into %d bytes of Q8_0: blocks are of %d values in %d bytes", len(src), len(dst), block, Q8_0.BlockBytes())
	}
	for ; len(src) > 0; dst, src = dst[2+block:], src[block:] {
		var largest float32
		for i, x := range src[:block] {
			if x != x || math.IsInf(float64(x), 0) {
				return fmt.Errorf("quantize: value %d of a block is %g", i, x)
			}
			largest = max(largest, float32(math.Abs(float64(x))))
		}
		scale := largest / 127
		var inverse float32
		if scale != 0 {
			inverse = 1 / scale
		}
		h := halfOf(scale)
		if h == 0x7c00 {
			return fmt.Errorf("quantize: a value of %g is too large for a scale in 16 bits", largest)
		}
		binary.LittleEndian.PutUint16(dst, h)
		for i, x := range src[:block] {
			dst[2+i] = byte(int8(roundAway(float32(x * inverse))))
		}
	}
	return nil
}

// roundAway rounds to the nearest integer, halves away from zero.
func roundAway(x float32) float32 { return float32(math.Round(float64(x))) }

// halfOf rounds a float32 that is not NaN and not negative to binary16, halves
// to even.
func halfOf(x float32) uint16 {
	bits := math.Float32bits(x)
	exp := int(bits>>23) - 127
	frac := bits&(1<<23-1) | 1<<23
	shift := 13
	if exp < -14 { // subnormal: units of 2^-24
		shift += -14 - exp
	}
	switch {
	case exp > 15:
		return 0x7c00
	case shift > 25: // less than half a unit
		return 0
	}
	n := frac >> shift
	rest, half := frac&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || rest == half && n&1 == 1 {
		n++
	}
	if exp < -14 {
		return uint16(n) // 1<<10, if rounded up to it, is the least normal number
	}
	return uint16(uint32(exp+15-1)<<10 + n) // n has the hidden bit, and may carry
}
