//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"
	"math/bits"
	"testing"

	"github.com/wasmeter/wasmeter/engine/sample"
)

// noise is the number that engine/sample draws with: Philox4x32-10 (Salmon et al.,
// Parallel Random Numbers: As Easy as 1, 2, 3, SC'11, table 2) of the position and the
// choice, keyed by the seed.
func noise(seed uint64, choice, position uint32) uint64 {
	c, key := [4]uint32{position, 0, choice, 0}, [2]uint32{uint32(seed), uint32(seed >> 32)}
	for range 10 {
		high0, low0 := bits.Mul32(0xD2511F53, c[0])
		high1, low1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0}
		key[0], key[1] = key[0]+0x9E3779B9, key[1]+0xBB67AE85
	}
	return uint64(c[1])<<32 | uint64(c[0])
}

// TestSampleAsTheHost compares with engine/sample itself: the same token from the same
// logits, whatever is cut, however near a cut or a number falls.
func TestSampleAsTheHost(t *testing.T) {
	b := openBench(t)
	for _, vocab := range []int{2, 300, 1500, 9000} {
		err := b.Check(Case{"sample_draw", fmt.Sprintf("as the host, %d tokens", vocab), func(b *Bench) error {
			return sampleAsTheHost(t, b, vocab)
		}})
		if err != nil {
			t.Error(err)
		}
	}
}

func sampleAsTheHost(t *testing.T, b *Bench, vocab int) error {
	scratch := sample.NewScratch(vocab)
	var draws []*draw
	var want []sample.Token
	for i := range 35 {
		d := newDraw(b, i%len(rowKinds), vocab)
		if i%2 == 0 {
			d.adjust(b, vocab)
		}
		d.Temperature = pick[float32](b, 0, 1e-3, 0.7, 1, 100)
		d.TopK = pick(b, 0, 1, 2, 40, 290, 1600, 5000)
		d.TopP = pick[float32](b, 1e-6, 0.3, 0.95, 0.999999, 1)
		d.MinP = pick[float32](b, 0, 1e-9, 0.05, 1)
		d.Logprobs = pick(b, -1, 0, 5)
		seed, choice := b.Rand.Uint64(), i%3
		d.Noise = noise(seed, uint32(choice), uint32(i))

		p := sample.Params{Temperature: d.Temperature, TopK: d.TopK, TopP: d.TopP, MinP: d.MinP, RepetitionPenalty: d.RepetitionPenalty,
			PresencePenalty: d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty, Bias: d.bias, Seed: seed, Logprobs: d.Logprobs}
		var prompt, banned []int32
		for id := range d.seen {
			prompt = append(prompt, id)
		}
		for id, b := range d.banned {
			if b {
				banned = append(banned, int32(id))
			}
		}
		s := sample.NewSampler(p, choice, prompt, vocab)
		for id, n := range d.seen {
			for range n {
				s.Accept(id)
			}
		}
		draws = append(draws, d)
		want = append(want, s.Sample(scratch, append([]float32(nil), d.logits...), i, banned))
	}
	got, err := drawOn(b, vocab, draws)
	if err != nil {
		return err
	}
	for i, w := range want {
		if got[i].Token != w.ID {
			t.Errorf("%d tokens, row %d, %s, %+v: token %d, want %d", vocab, i, rowKinds[i%len(rowKinds)].name, draws[i].Draw, got[i].Token, w.ID)
		}
		if draws[i].Logprobs < 0 {
			continue
		}
		// The logarithm of the device's library may differ in the last bit of float64.
		if near := math.Abs(float64(got[i].Logprob-w.Logprob)) <= 1e-6; !near && got[i].Logprob != w.Logprob {
			t.Errorf("%d tokens, row %d: log probability %v, want %v", vocab, i, got[i].Logprob, w.Logprob)
		}
		if len(got[i].Top) != len(w.Top) {
			t.Errorf("%d tokens, row %d: %d most likely tokens, want %d", vocab, i, len(got[i].Top), len(w.Top))
			continue
		}
		for j, top := range w.Top {
			if got[i].Top[j].Token != top.ID {
				t.Errorf("%d tokens, row %d: most likely token %d is %d, want %d", vocab, i, j, got[i].Top[j].Token, top.ID)
			}
		}
	}
	return nil
}
