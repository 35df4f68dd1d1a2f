package gguf

import (
	"encoding/binary"
	"fmt"
)

// CheckFinite returns an error if the tensor holds NaN or infinity. Of the
// quantised types it looks at the scales, of which all else is a finite
// multiple. Types that Dequantize doesn't know are not looked at.
func (t Tensor) CheckFinite() error {
	switch t.Type {
	case F32:
		return t.checkNumbers(4, 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000)
	case F16:
		return t.checkNumbers(2, 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400, 0x8000_8000_8000_8000)
	case BF16:
		return t.checkNumbers(2, 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000)
	case Q4_0, Q5_0, Q8_0:
		return t.checkScales(0, 0)
	case Q4_1, Q5_1, Q4_K, Q5_K:
		return t.checkScales(0, 2)
	case Q6_K:
		return t.checkScales(208, 208)
	}
	return nil
}

// checkNumbers looks at eight bytes at a time. NaN and infinity have all bits
// of the exponent set: adding one to the exponent carries into the sign's place,
// from which the sign has been cut, and no further.
func (t Tensor) checkNumbers(size int, exponent, one, carry uint64) error {
	data := t.Data
	for ; len(data) >= 8; data = data[8:] {
		if (binary.LittleEndian.Uint64(data)&exponent+one)&carry != 0 {
			break
		}
	}
	for ; len(data) > 0; data = data[size:] {
		var word [8]byte
		copy(word[:], data[:size])
		if (binary.LittleEndian.Uint64(word[:])&exponent+one)&carry&(1<<(8*size)-1) != 0 {
			var value [1]float32
			if err := Dequantize(value[:], data[:size], t.Type); err != nil {
				return err
			}
			return fmt.Errorf("element %d is %g", (len(t.Data)-len(data))/size, value[0])
		}
	}
	return nil
}

// checkScales looks at the half-precision numbers at two places of each block.
func (t Tensor) checkScales(first, second int) error {
	size := t.Type.BlockBytes()
	for block := 0; (block+1)*size <= len(t.Data); block++ {
		data := t.Data[block*size:]
		for _, at := range [...]int{first, second} {
			if binary.LittleEndian.Uint16(data[at:])&0x7c00 == 0x7c00 {
				return fmt.Errorf("a scale of block %d, elements %d to %d, is %g", block, block*t.Type.BlockLen(), (block+1)*t.Type.BlockLen()-1, half(data[at:]))
			}
		}
	}
	return nil
}
