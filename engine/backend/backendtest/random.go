package backendtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// halfAt lists where the blocks of a quantised type hold half-precision scales.
// Source: ggml/src/ggml-common.h. Minimums hold minus half the range of the quants,
// so that values lie around zero.
var halfAt = map[gguf.DType]struct{ scale, minimum int }{
	gguf.Q4_0: {0, -1},
	gguf.Q4_1: {0, 2},
	gguf.Q5_0: {0, -1},
	gguf.Q5_1: {0, 2},
	gguf.Q8_0: {0, -1},
	gguf.Q4_K: {0, 2},
	gguf.Q5_K: {0, 2},
	gguf.Q6_K: {208, -1},
}

// randomTensor makes a tensor of random values of about the given size.
func randomTensor(rng *rand.Rand, name string, t gguf.DType, size float32, shape ...uint64) gguf.Tensor {
	tensor := gguf.Tensor{Name: name, Type: t, Shape: shape}
	n := tensor.Elements()
	switch t {
	case gguf.F32:
		for range n {
			tensor.Data = binary.LittleEndian.AppendUint32(tensor.Data, math.Float32bits(size*float32(rng.NormFloat64())))
		}
		return tensor
	case gguf.BF16:
		for range n {
			tensor.Data = binary.LittleEndian.AppendUint16(tensor.Data, uint16(math.Float32bits(size*float32(rng.NormFloat64()))>>16))
		}
		return tensor
	case gguf.F16:
		for range n {
			tensor.Data = binary.LittleEndian.AppendUint16(tensor.Data, half(size*float32(rng.NormFloat64())))
		}
		return tensor
	}
	at, ok := halfAt[t]
	if !ok {
		panic(fmt.Sprintf("backendtest: random tensors of type %s", t))
	}
	// Quants are random bits: their spread is half of the range that the type
	// gives them, which the scale undoes.
	spread := map[gguf.DType]float32{gguf.Q8_0: 64, gguf.Q4_K: 32 * 8, gguf.Q5_K: 32 * 16, gguf.Q5_0: 8, gguf.Q5_1: 8, gguf.Q6_K: 64 * 16}[t]
	if spread == 0 {
		spread = 4
	}
	tensor.Data = make([]byte, t.RowBytes(n))
	for block := tensor.Data; len(block) > 0; block = block[t.BlockBytes():] {
		for i := range t.BlockBytes() {
			block[i] = byte(rng.Uint32())
		}
		scale := size / spread * (0.5 + rng.Float32())
		binary.LittleEndian.PutUint16(block[at.scale:], half(scale))
		if at.minimum >= 0 {
			minimum := -7.5 * scale
			if t == gguf.Q5_1 || t == gguf.Q5_K {
				minimum = -15.5 * scale
			}
			if t == gguf.Q4_K || t == gguf.Q5_K {
				minimum = -minimum // stored without its sign
			}
			binary.LittleEndian.PutUint16(block[at.minimum:], half(minimum))
		}
	}
	return tensor
}

// half converts to half precision, cutting digits off; x is in the normal range
// or becomes zero.
func half(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, exponent := uint16(bits>>16)&0x8000, int(bits>>23&0xff)-127+15
	if exponent <= 0 {
		return sign
	}
	return sign | uint16(exponent)<<10 | uint16(bits>>13&0x3ff)
}
