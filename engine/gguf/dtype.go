package gguf

import "strconv"

// DType is the type of a tensor's elements, by its number in the file.
type DType uint32

// The types that Dequantize knows. Others that a file may name are listed and
// sized, so that a file can be printed, but not converted.
const (
	F32  DType = 0
	F16  DType = 1
	Q4_0 DType = 2
	Q4_1 DType = 3
	Q5_0 DType = 6
	Q5_1 DType = 7
	Q8_0 DType = 8
	Q4_K DType = 12
	Q5_K DType = 13
	Q6_K DType = 14
	BF16 DType = 30
)

// A block is the unit in which a type stores elements: so many elements in so
// many bytes, scales included.
type block struct {
	name     string
	elements int
	bytes    int
}

// blockOf returns the block of a type; its name is empty for unknown numbers.
// Q8_1, Q8_K and the withdrawn numbers are absent: they do not occur in files.
func blockOf(t DType) block {
	switch t {
	case F32:
		return block{"F32", 1, 4}
	case F16:
		return block{"F16", 1, 2}
	case Q4_0:
		return block{"Q4_0", 32, 2 + 16}
	case Q4_1:
		return block{"Q4_1", 32, 2 + 2 + 16}
	case Q5_0:
		return block{"Q5_0", 32, 2 + 4 + 16}
	case Q5_1:
		return block{"Q5_1", 32, 2 + 2 + 4 + 16}
	case Q8_0:
		return block{"Q8_0", 32, 2 + 32}
	case Q4_K:
		return block{"Q4_K", 256, 2 + 2 + 12 + 128}
	case Q5_K:
		return block{"Q5_K", 256, 2 + 2 + 12 + 32 + 128}
	case Q6_K:
		return block{"Q6_K", 256, 128 + 64 + 16 + 2}
	case BF16:
		return block{"BF16", 1, 2}
	}
	return listedBlock(t)
}

// listedBlock has the types that are only listed.
func listedBlock(t DType) block {
	switch t {
	case 10:
		return block{"Q2_K", 256, 84}
	case 11:
		return block{"Q3_K", 256, 110}
	case 16:
		return block{"IQ2_XXS", 256, 66}
	case 17:
		return block{"IQ2_XS", 256, 74}
	case 18:
		return block{"IQ3_XXS", 256, 98}
	case 19:
		return block{"IQ1_S", 256, 50}
	case 20:
		return block{"IQ4_NL", 32, 18}
	case 21:
		return block{"IQ3_S", 256, 110}
	case 22:
		return block{"IQ2_S", 256, 82}
	case 23:
		return block{"IQ4_XS", 256, 136}
	case 24:
		return block{"I8", 1, 1}
	case 25:
		return block{"I16", 1, 2}
	case 26:
		return block{"I32", 1, 4}
	case 27:
		return block{"I64", 1, 8}
	case 28:
		return block{"F64", 1, 8}
	case 29:
		return block{"IQ1_M", 256, 56}
	case 34:
		return block{"TQ1_0", 256, 54}
	case 35:
		return block{"TQ2_0", 256, 66}
	case 39:
		return block{"MXFP4", 32, 17}
	case 40:
		return block{"NVFP4", 64, 36}
	case 41:
		return block{"Q1_0", 128, 18}
	}
	return block{}
}

func (t DType) known() bool { return blockOf(t).name != "" }

// String returns ggml's name of the type, such as "Q4_1".
func (t DType) String() string {
	if b := blockOf(t); b.name != "" {
		return b.name
	}
	return "type " + strconv.FormatUint(uint64(t), 10)
}

// BlockLen returns the number of elements in a block, 0 for an unknown type.
func (t DType) BlockLen() int { return blockOf(t).elements }

// BlockBytes returns the number of bytes of a block, 0 for an unknown type.
func (t DType) BlockBytes() int { return blockOf(t).bytes }

// RowBytes returns the bytes of n elements of a known type; n is a multiple of
// BlockLen, as the row of every parsed tensor is.
func (t DType) RowBytes(n uint64) uint64 {
	b := blockOf(t)
	return n / uint64(b.elements) * uint64(b.bytes)
}
