package cpu

// RopePairs rotates each neighbouring pair (x[2i], x[2i+1]) of every head by the angle
// whose cosine and sine are given (Su et al., "RoFormer", 2021, section 3.4.2), the
// pairing of Llama in GGUF. x is [heads, dim]; cos and sin are [rotated/2]. If they are
// shorter than dim/2, the rest of a head stays as it is.
func (o *Ops) RopePairs(x, cos, sin []float32, dim int) {
	rope(o.ropePairs, x, cos, sin, dim)
}

// RopeHalves is RopePairs for the pairing of GPT-NeoX and Qwen: (x[i], x[i+len(cos)]).
func (o *Ops) RopeHalves(x, cos, sin []float32, dim int) {
	rope(o.ropeHalves, x, cos, sin, dim)
}

func rope(rotate func(x, cos, sin []float32), x, cos, sin []float32, dim int) {
	if dim <= 0 || len(x)%dim != 0 || 2*len(cos) > dim || len(sin) != len(cos) {
		panic("cpu: rotation of impossible shape")
	}
	for h := 0; h < len(x); h += dim {
		rotate(x[h:h+2*len(cos)], cos, sin)
	}
}

func ropePairsGeneric(x, cos, sin []float32) {
	for i, c := range cos {
		a, b, s := x[2*i], x[2*i+1], sin[i]
		x[2*i] = float32(a*c) - float32(b*s)
		x[2*i+1] = float32(b*c) + float32(a*s)
	}
}

func ropeHalvesGeneric(x, cos, sin []float32) {
	low, high := x[:len(cos)], x[len(cos):]
	for i, c := range cos {
		a, b, s := low[i], high[i], sin[i]
		low[i] = float32(a*c) - float32(b*s)
		high[i] = float32(b*c) + float32(a*s)
	}
}
