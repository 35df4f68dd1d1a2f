package cuda

import (
	"encoding/binary"
	"math"
)

// MaxVocab is the largest vocabulary that tokens can be drawn from: a weight and a
// token share 64 bits, as in engine/sample.
const MaxVocab = 1 << 20

// MaxTop is the largest number of log probabilities beside the drawn token's.
const MaxTop = 256

// Draw says how a row's token is drawn. The parameters are those of engine/sample's
// Params, validated.
type Draw struct {
	// Temperature 0 draws the greatest logit.
	Temperature float32
	TopK        int     // 0: all
	TopP        float32 // 1: all
	MinP        float32 // 0: all
	// RepetitionPenalty 1 and the others 0 are neutral.
	RepetitionPenalty, PresencePenalty, FrequencyPenalty float32
	// Bias and Seen are the draw's parts of the lists of pairs: the first, and their
	// number.
	Bias, Seen Part
	// Mask is the number of the draw's mask; -1 for none.
	Mask int
	// Noise is the row's random number, uniform in 64 bits.
	Noise uint64
	// Logprobs is the number of most likely tokens whose log probabilities are wanted
	// beside the drawn one's; -1 for none at all.
	Logprobs int
	// Skip leaves the row alone: it pads a step.
	Skip bool
}

// Part is a part of a list.
type Part struct{ From, Len int }

// DrawBytes is the size of an encoded Draw: sizeof(Draw) in sample.cu.
const DrawBytes = 80

// Encode writes the draw for the device. dst has DrawBytes.
func (d *Draw) Encode(dst []byte) {
	at := 0
	word := func(v uint32) {
		binary.LittleEndian.PutUint32(dst[at:], v)
		at += 4
	}
	double := func(v uint64) {
		binary.LittleEndian.PutUint64(dst[at:], v)
		at += 8
	}
	// log₂e / temperature turns nats into octaves: kernels/cpu, WeightScale.
	scale := 0.0
	if d.Temperature != 0 {
		scale = math.Log2E / float64(d.Temperature)
	}
	double(d.Noise)
	double(math.Float64bits(scale))
	// engine/sample's least: what a token must weigh by min-p.
	double(max(uint64(math.Ceil(float64(d.MinP)*(1<<40))), 1))
	for _, v := range []float32{d.TopP, d.RepetitionPenalty, d.PresencePenalty, d.FrequencyPenalty} {
		word(math.Float32bits(v))
	}
	skip := 0
	if d.Skip {
		skip = 1
	}
	for _, v := range []int{d.TopK, d.Bias.From, d.Bias.Len, d.Seen.From, d.Seen.Len, d.Mask, d.Logprobs, skip} {
		word(uint32(int32(v)))
	}
	word(0)
	word(0)
}

// Drawn is what a row's draw gave.
type Drawn struct {
	Token     int32
	NotFinite bool    // a logit of the row was NaN or infinite before bias and mask
	Logprob   float32 // of Token, by the logits as the model gave them
	// Top are the most likely tokens, the most likely first and the lowest first among
	// equals. At most Draw.Logprobs; Decode reuses the slice.
	Top []TokenLogprob
}

// TokenLogprob is a token and the natural logarithm of its probability.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// DrawnBytes is the size of an encoded Drawn with room for so many tokens: a head of 16
// bytes, and 8 for each.
func DrawnBytes(top int) int { return 16 + 8*top }

// Decode reads a row's result.
func (d *Drawn) Decode(src []byte) {
	d.Token = int32(binary.LittleEndian.Uint32(src))
	d.NotFinite = binary.LittleEndian.Uint32(src[4:]) != 0
	d.Logprob = math.Float32frombits(binary.LittleEndian.Uint32(src[8:]))
	n := int(binary.LittleEndian.Uint32(src[12:]))
	d.Top = d.Top[:0]
	for i := range n {
		at := src[16+8*i:]
		d.Top = append(d.Top, TokenLogprob{int32(binary.LittleEndian.Uint32(at)), math.Float32frombits(binary.LittleEndian.Uint32(at[4:]))})
	}
}
