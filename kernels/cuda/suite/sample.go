//go:build cuda && cgo && linux

package suite

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wasmeter/wasmeter/kernels/cuda"
)

// draw is a row with what is drawn from it.
type draw struct {
	cuda.Draw
	logits []float32
	bias   map[int32]float32
	seen   map[int32]int32 // occurrences in the output
	banned []bool          // nil: none
}

// adjusted are the logits with bias, bans and penalties: engine/sample's rule, whose
// operations are in float32.
func (d *draw) adjusted() []float32 {
	row := slices.Clone(d.logits)
	for id, v := range d.bias {
		row[id] += v
	}
	for id, banned := range d.banned {
		if banned {
			row[id] = float32(math.Inf(-1))
		}
	}
	for id, n := range d.seen {
		if row[id] > 0 {
			row[id] /= d.RepetitionPenalty
		} else {
			row[id] *= d.RepetitionPenalty
		}
		if n > 0 {
			row[id] -= float32(d.FrequencyPenalty * float32(n))
			row[id] -= d.PresencePenalty
		}
	}
	return row
}

// likely lists the tokens that have a probability, the most likely first and the lowest
// first among equals.
func likely(row []float32) []int {
	var order []int
	for id, x := range row {
		if float64(x) > math.Inf(-1) {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	return order
}

// probabilities are the slow twin: a full sort, float64, math.Exp. It returns what each
// token is drawn with, and how far the nearest cut was from falling otherwise.
func (d *draw) probabilities(row []float32) (probs []float64, margin float64) {
	probs, margin = make([]float64, len(row)), math.Inf(1)
	order := likely(row)
	if len(order) == 0 {
		lowest := max(0, slices.Index(d.banned, false))
		probs[lowest] = 1
		return probs, margin
	}
	if d.Temperature == 0 {
		probs[order[0]] = 1
		return probs, margin
	}
	weight := func(id int) float64 {
		return math.Exp((float64(row[id]) - float64(row[order[0]])) / float64(d.Temperature))
	}
	if d.TopK > 0 && len(order) > d.TopK {
		order = order[:d.TopK]
	}
	order = slices.DeleteFunc(order, func(id int) bool {
		if id != order[0] && d.MinP > 0 {
			margin = min(margin, math.Abs(weight(id)-float64(d.MinP)))
		}
		return weight(id) < float64(d.MinP)
	})
	total := 0.0
	for _, id := range order {
		total += weight(id)
	}
	if d.TopP < 1 {
		sum := 0.0
		for i, id := range order {
			sum += weight(id)
			margin = min(margin, math.Abs(sum/total-float64(d.TopP)))
			if sum >= float64(d.TopP)*total {
				order, total = order[:i+1], sum
				break
			}
		}
	}
	for _, id := range order {
		probs[id] = weight(id) / total
	}
	return probs, margin
}

// logprobs are the row's log probabilities as the model gave them.
func logprobs(row []float32) func(id int) float64 {
	order := likely(row)
	if len(order) == 0 {
		return func(int) float64 { return math.Inf(-1) }
	}
	peak, sum := float64(row[order[0]]), 0.0
	for _, id := range order {
		sum += math.Exp(float64(row[id]) - peak)
	}
	return func(id int) float64 {
		if !(float64(row[id]) > math.Inf(-1)) {
			return math.Inf(-1)
		}
		return float64(row[id]) - peak - math.Log(sum)
	}
}

// What a token is drawn with is known to within 5e-10 in the weights and in their sum; a
// cut or a number nearer than this may fall otherwise.
const undecided = 1e-8

// check compares what the device drew.
func (d *draw) check(got *cuda.Drawn) (compared bool, err error) {
	finite := !slices.ContainsFunc(d.logits, func(x float32) bool { return x-x != 0 })
	if got.NotFinite == finite {
		return true, fmt.Errorf("flag of values that are not finite: %t, want %t", got.NotFinite, !finite)
	}
	if d.Logprobs >= 0 {
		of := logprobs(d.logits)
		near := func(token int32, value float32) error {
			if want := of(int(token)); math.Abs(float64(value)-want) > 1e-6*(1+math.Abs(want)) && float64(value) != want {
				return fmt.Errorf("log probability of token %d: %v, want %v", token, value, want)
			}
			return nil
		}
		if err := near(got.Token, got.Logprob); err != nil {
			return true, err
		}
		order := likely(d.logits)
		if want := min(d.Logprobs, len(order)); len(got.Top) != want {
			return true, fmt.Errorf("%d most likely tokens, want %d", len(got.Top), want)
		}
		for i, top := range got.Top {
			if top.Token != int32(order[i]) {
				return true, fmt.Errorf("most likely token %d is %d, want %d", i, top.Token, order[i])
			}
			if err := near(top.Token, top.Logprob); err != nil {
				return true, err
			}
		}
	}
	row := d.adjusted()
	probs, margin := d.probabilities(row)
	if margin < undecided {
		return false, nil
	}
	u, cumulative := float64(d.Noise)/(1<<64), 0.0
	for id, p := range probs {
		if p > 0 && u >= cumulative-undecided && u < cumulative+p+undecided && int32(id) == got.Token {
			return true, nil
		}
		cumulative += p
	}
	return true, fmt.Errorf("token %d at %v is not where the distribution says: its probability is %v", got.Token, u, probs[got.Token])
}

// sampleBatch draws from all rows in one launch, and checks each.
func sampleBatch(b *Bench, vocab int, draws []*draw) error {
	drawn, err := drawOn(b, vocab, draws)
	if err != nil {
		return err
	}
	skipped := 0
	for i, d := range draws {
		if d.Skip {
			continue
		}
		compared, err := d.check(&drawn[i])
		if err != nil {
			return fmt.Errorf("row %d, %+v, %d biased, %d seen, %t banned: %w", i, d.Draw, len(d.bias), len(d.seen), d.banned != nil, err)
		}
		if !compared {
			skipped++
		}
	}
	if skipped > len(draws)/4 {
		return fmt.Errorf("%d of %d rows were too near a cut to compare; at most a quarter may be", skipped, len(draws))
	}
	return nil
}

// drawOn puts the draws on the device and returns what it drew.
func drawOn(b *Bench, vocab int, draws []*draw) ([]cuda.Drawn, error) {
	var logits []float32
	var bias, seen, masks []byte
	pair := func(list []byte, id int32, value uint32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(list, uint32(id)), value)
	}
	encoded := make([]byte, len(draws)*cuda.DrawBytes)
	words := (vocab + 31) / 32
	top := 0
	for i, d := range draws {
		logits = append(logits, d.logits...)
		d.Bias = cuda.Part{From: len(bias) / 8, Len: len(d.bias)}
		for id, v := range d.bias {
			bias = pair(bias, id, math.Float32bits(v))
		}
		d.Seen = cuda.Part{From: len(seen) / 8, Len: len(d.seen)}
		for id, n := range d.seen {
			seen = pair(seen, id, uint32(n))
		}
		d.Mask = -1
		if d.banned != nil {
			d.Mask = len(masks) / 4 / words
			bits := make([]byte, 4*words)
			for id, banned := range d.banned {
				if !banned {
					bits[id/8] |= 1 << (id % 8)
				}
			}
			masks = append(masks, bits...)
		}
		top = max(top, d.Logprobs)
		d.Encode(encoded[i*cuda.DrawBytes:])
	}
	size := cuda.DrawnBytes(top)
	p := cuda.Sampling{
		Logits: b.Floats(logits), Rows: len(draws), Vocab: vocab, Draws: b.Bytes(encoded), Bias: b.Bytes(bias), Seen: b.Bytes(seen),
		Masks: b.Bytes(masks), Scratch: b.Empty(int(cuda.SampleScratch(len(draws), vocab))), Drawn: b.Empty(len(draws) * size), Top: top,
	}
	b.Do(b.Kernels.Sample(b.Stream, p))
	result := b.ReadBytes(p.Drawn, len(draws)*size)
	if err := Same(b.ReadFloats(p.Logits, len(logits)), logits, vocab); err != nil {
		return nil, fmt.Errorf("logits are changed: %w", err)
	}
	drawn := make([]cuda.Drawn, len(draws))
	for i, d := range draws {
		if !d.Skip && b.err == nil {
			drawn[i].Decode(result[i*size:])
		}
	}
	return drawn, b.err
}

// rowKinds are shapes of rows that sampling finds hard.
var rowKinds = []struct {
	name  string
	value func(b *Bench, i, n int) float32
}{
	{"normal", func(b *Bench, _, _ int) float32 { return float32(b.Rand.NormFloat64() * 4) }},
	{"flat", func(b *Bench, _, _ int) float32 { return float32(b.Rand.NormFloat64() * 0.01) }},
	{"ties", func(b *Bench, _, _ int) float32 { return float32(b.Rand.IntN(7)) }},
	{"equal", func(*Bench, int, int) float32 { return 2.5 }},
	{"rising", func(_ *Bench, i, n int) float32 { return float32(i) / float32(n) * 20 }},
	{"peaked", func(b *Bench, i, n int) float32 {
		if i == n/2 {
			return 40
		}
		return float32(b.Rand.NormFloat64())
	}},
	{"holes", func(b *Bench, _, _ int) float32 {
		return []float32{float32(b.Rand.NormFloat64()), float32(math.Inf(-1)), float32(math.NaN())}[b.Rand.IntN(3)]
	}},
}

// pick is one of a list.
func pick[T any](b *Bench, list ...T) T { return list[b.Rand.IntN(len(list))] }

// newDraw makes a row of a kind with neutral parameters.
func newDraw(b *Bench, kind, vocab int) *draw {
	d := &draw{Draw: cuda.Draw{Temperature: 1, TopP: 1, RepetitionPenalty: 1, Noise: b.Rand.Uint64(), Logprobs: -1}, logits: make([]float32, vocab)}
	for i := range d.logits {
		d.logits[i] = rowKinds[kind].value(b, i, vocab)
	}
	return d
}

// adjust gives a draw bias, bans and penalties.
func (d *draw) adjust(b *Bench, vocab int) {
	d.RepetitionPenalty, d.PresencePenalty, d.FrequencyPenalty = pick[float32](b, 1, 1.3, 0.7), pick[float32](b, 0, 0.5, -2), pick[float32](b, 0, 0.25, -0.5)
	d.bias, d.seen = map[int32]float32{}, map[int32]int32{}
	for range min(vocab/2, 50) {
		d.bias[int32(b.Rand.IntN(vocab))] = float32(b.Rand.NormFloat64() * 5)
		d.seen[int32(b.Rand.IntN(vocab))] = int32(b.Rand.IntN(4))
	}
	switch b.Rand.IntN(4) {
	case 0:
		d.banned = make([]bool, vocab)
		for i := range d.banned {
			d.banned[i] = b.Rand.IntN(3) > 0
		}
	case 1: // nothing is allowed but one token, or none at all
		d.banned = make([]bool, vocab)
		for i := range d.banned {
			d.banned[i] = true
		}
		if b.Rand.IntN(4) > 0 {
			d.banned[b.Rand.IntN(vocab)] = false
		}
	}
}

func sampleCases() []Case {
	var cases []Case
	// Vocabularies of one slice and of two, and more than the list that is sorted; with 9000
	// tokens, of which two thirds are holes, a top-k of 5000 is more than there are.
	for _, vocab := range []int{1, 5, 300, 1025, 9000} {
		for kind, k := range rowKinds {
			name := k.name + ", " + numbered("tokens", vocab)
			cases = append(cases,
				Case{"sample_prepare", name, func(b *Bench) error {
					var draws []*draw
					for range 7 {
						d := newDraw(b, kind, vocab)
						d.adjust(b, vocab)
						d.Temperature = pick[float32](b, 0, 0.7)
						d.Skip = b.Rand.IntN(6) == 0
						draws = append(draws, d)
					}
					return sampleBatch(b, vocab, draws)
				}},
				Case{"sample_weigh", name, func(b *Bench) error {
					var draws []*draw
					for _, temperature := range []float32{1e-3, 0.7, 1, 100} {
						d := newDraw(b, kind, vocab)
						d.Temperature = temperature
						draws = append(draws, d)
					}
					return sampleBatch(b, vocab, draws)
				}},
				Case{"sample_draw", name, func(b *Bench) error {
					var draws []*draw
					for range 16 {
						d := newDraw(b, kind, vocab)
						d.Temperature = pick[float32](b, 1e-3, 0.7, 1, 100)
						d.TopK = pick(b, 0, 1, 2, 40, 290, 1600, 5000)
						d.TopP = pick[float32](b, 1e-6, 0.3, 0.95, 1)
						d.MinP = pick[float32](b, 0, 0, 0.05)
						d.Logprobs = pick(b, -1, 0, 1, 5, cuda.MaxTop)
						draws = append(draws, d)
					}
					return sampleBatch(b, vocab, draws)
				}})
		}
	}
	return cases
}

func sampleSpeeds() []Speed {
	const rows, vocab = 16, 128256
	speed := func(kernel, name string, bytes float64, set func(d *draw)) Speed {
		return Speed{kernel, name + ", " + numbered("rows", rows, "tokens", vocab), func(b *Bench, shrink int) Work {
			rows, vocab := max(rows/shrink, 1), vocab/shrink
			var logits []float32
			encoded := make([]byte, rows*cuda.DrawBytes)
			for i := range rows {
				d := newDraw(b, 0, vocab)
				d.Mask = -1
				set(d)
				d.Encode(encoded[i*cuda.DrawBytes:])
				logits = append(logits, d.logits...)
			}
			p := cuda.Sampling{Logits: b.Floats(logits), Rows: rows, Vocab: vocab, Draws: b.Bytes(encoded),
				Scratch: b.Empty(int(cuda.SampleScratch(rows, vocab))), Drawn: b.Empty(rows * cuda.DrawnBytes(0))}
			return Work{Bytes: bytes * float64(rows) * float64(vocab), Launch: func() error { return b.Kernels.Sample(b.Stream, p) }}
		}}
	}
	// The three kernels are one launch: what differs is which of them has the most to do.
	return []Speed{
		speed("sample_prepare", "greatest", 8, func(d *draw) { d.Temperature = 0 }),
		speed("sample_weigh", "all tokens", 20, func(*draw) {}),
		speed("sample_draw", "top-k and top-p", 28, func(d *draw) { d.TopK, d.TopP = 40, 0.95 }),
	}
}
