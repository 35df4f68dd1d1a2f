package sample

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// MaxVocab is the largest vocabulary, for an entry holds a token in 20 bits. The
// largest in use have 2¹⁸ tokens and a few; the engine refuses a model beyond.
const MaxVocab = 1 << 20

// Scratch is the working memory of one draw, 20 bytes for each token of the
// vocabulary. The engine's loop owns some and lends them to every sampler; nothing
// in one outlives a call.
type Scratch struct {
	ops     *kernels.Ops
	entries []entry   // candidates in token order. [≤ vocab]
	work    []entry   // a copy of candidates to be reordered. [≤ vocab]
	raw     []float32 // the row as the model gave it. [vocab]
	sums    []uint64  // the weights of each span of tokens
}

// NewScratch makes the memory for rows of vocab logits, 1 … MaxVocab.
func NewScratch(vocab int) *Scratch {
	if vocab < 1 || vocab > MaxVocab {
		panic(fmt.Sprintf("sample: a vocabulary of %d tokens is not in 1 … %d", vocab, MaxVocab))
	}
	ops, err := kernels.Select(kernels.Best())
	if err != nil {
		panic(fmt.Sprintf("sample: %v", err)) // the best is one that there is
	}
	return &Scratch{
		ops:     ops,
		entries: make([]entry, 0, vocab),
		work:    make([]entry, 0, vocab),
		raw:     make([]float32, vocab),
		sums:    make([]uint64, 0, vocab/span+1),
	}
}

// entry is a token with what ranks it: a value of 44 bits above the complement
// of its id. Entries are distinct, and descending order puts the greatest value
// first and the lowest id first among equal values. The value is a logit's
// ordinal or a weight.
type entry uint64

func newEntry(value uint64, id int) entry { return entry(value*MaxVocab + uint64(MaxVocab-1-id)) }
func (e entry) value() uint64             { return uint64(e / MaxVocab) }
func (e entry) id() int32                 { return int32(MaxVocab - 1 - e%MaxVocab) }

// ordinal maps floats to integers of the same order; −0 and 0 are one.
func ordinal(x float32) uint64 {
	b := math.Float32bits(x + 0)
	return uint64(b ^ (uint32(int32(b)>>31) | 1<<31))
}

// logit is the float of an ordinal.
func logit(ordinal uint64) float32 {
	b := uint32(ordinal)
	return math.Float32frombits(b ^ (^uint32(int32(b)>>31) | 1<<31))
}

// top returns the k greatest logits, in token order, with their ordinals as
// values; fewer when more are −Inf or NaN. It keeps up to twice as many and
// halves them whenever they are full, so that a typical row costs one comparison
// a token.
func (s *Scratch) top(logits []float32, k int) []entry {
	full := min(max(2*k, 256), len(logits))
	kept := s.entries[:0]
	floor := float32(math.Inf(-1))
	for i := s.next(logits, 0, floor); i < len(logits); i = s.next(logits, i+1, floor) {
		kept = append(kept, newEntry(ordinal(logits[i]), i))
		if len(kept) == full && k < full {
			kept = s.cut(kept, k)
			// Later tokens have higher ids, so an equal logit is not enough.
			floor = logit(slices.Min(kept).value())
		}
	}
	if k < len(kept) {
		kept = s.cut(kept, k)
	}
	return kept
}

// next is the first index from i on whose logit is greater than floor, or
// len(logits).
func (s *Scratch) next(logits []float32, i int, floor float32) int {
	return i + s.ops.Above(logits[i:], floor)
}

// greatest finds the first of the greatest logits; −1 if all are −Inf or NaN.
func (s *Scratch) greatest(logits []float32) (id int32, peak float32) {
	i := s.ops.Argmax(logits)
	if i < 0 || math.IsInf(float64(logits[i]), -1) {
		return -1, float32(math.Inf(-1))
	}
	return int32(i), logits[i]
}

// weigh puts weights in the place of ordinals.
func weigh(entries []entry, scale float64) []entry {
	if len(entries) == 0 {
		return entries
	}
	peak := logit(slices.Max(entries).value())
	for i, e := range entries {
		entries[i] = newEntry(kernels.Weight(logit(e.value()), peak, scale), int(e.id()))
	}
	return entries
}

// heavy returns the tokens that weigh at least least, which is positive, in token
// order.
func (s *Scratch) heavy(logits []float32, peak float32, scale float64, least uint64) []entry {
	entries := s.entries[:0]
	floor := kernels.WeightFloor(least, peak, scale)
	for i := s.next(logits, 0, floor); i < len(logits); i = s.next(logits, i+1, floor) {
		if w := kernels.Weight(logits[i], peak, scale); w >= least {
			entries = append(entries, newEntry(w, i))
		}
	}
	return entries
}

// span is the number of tokens whose weights are added up at a time: few enough
// to look through one by one where the drawn number falls among them.
const span = 256

// drawAny draws from all tokens; u is uniform in 64 bits. It returns −1 where no
// token has a probability. No weight is kept: the sums of spans say in which one
// the number falls.
func (s *Scratch) drawAny(logits []float32, scale float64, u uint64) int32 {
	best, peak := s.greatest(logits)
	if best < 0 {
		return -1
	}
	sums, total := s.sums[:0], uint64(0)
	for from := 0; from < len(logits); from += span {
		sums = append(sums, s.ops.SumWeights(logits[from:min(from+span, len(logits))], peak, scale))
		total += sums[len(sums)-1]
	}
	at, _ := bits.Mul64(u, total)
	first := 0
	for _, sum := range sums {
		if at < sum {
			break
		}
		at -= sum
		first += span
	}
	for id := first; id < len(logits); id++ {
		w := kernels.Weight(logits[id], peak, scale)
		if at < w {
			return int32(id)
		}
		at -= w
	}
	panic("sample: the number drawn is not below the sum of the weights")
}

// cut keeps the k greatest of more than k entries, in their order.
func (s *Scratch) cut(entries []entry, k int) []entry {
	return atLeast(entries, kth(append(s.work[:0], entries...), k))
}

// topShare keeps the shortest list of greatest weights that sum to at least p of
// all of the vocabulary.
func (s *Scratch) topShare(logits []float32, peak float32, scale, p float64) []entry {
	total := s.ops.SumWeights(logits, peak, scale)
	n := need(p, total)
	// As in nucleus: what is below this share need not be listed. Most rows need
	// far less, so that the list begins at some octaves below the peak and grows.
	share := max((total-n)/uint64(len(logits)), 1)
	const octaves = 6
	for least := uint64(kernels.OneWeight); ; {
		least = max(least>>octaves, share)
		if list := s.heavy(logits, peak, scale, least); least == share || sum(list) >= n {
			return s.nucleus(list, n)
		}
	}
}

// need is what the shortest list of greatest weights must sum to for a share p of
// all. Source: Holtzman et al., https://arxiv.org/abs/1904.09751, section 3.1.
func need(p float64, total uint64) uint64 {
	// The product is rounded, so it may be off by one part in 2⁵².
	return min(max(uint64(math.Ceil(p*float64(total))), 1), total)
}

// nucleus keeps the shortest list of greatest weights that sum to at least need,
// which all together do.
func (s *Scratch) nucleus(entries []entry, need uint64) []entry {
	// Weights below an even share of what may be left out sum to less than it:
	// they are outside, and most tokens are among them.
	share := (sum(entries) - need) / uint64(len(entries))
	work := s.work[:0]
	for _, e := range entries {
		if e.value() >= share {
			work = append(work, e)
		}
	}
	return atLeast(entries, reaching(work, need))
}

// atLeast keeps the entries from least upwards, in their order.
func atLeast(entries []entry, least entry) []entry {
	kept := entries[:0]
	for _, e := range entries {
		if e >= least {
			kept = append(kept, e)
		}
	}
	return kept
}

// sum adds the weights up.
func sum(entries []entry) uint64 {
	var total uint64
	for _, e := range entries {
		total += e.value()
	}
	return total
}

// kth returns the k-th greatest entry, 1 ≤ k ≤ len(entries), and reorders them.
// Source: Hoare, Algorithm 65: Find, https://doi.org/10.1145/366622.366647.
func kth(entries []entry, k int) entry {
	for {
		i := partition(entries)
		switch {
		case k <= i:
			entries = entries[:i]
		case k == i+1:
			return entries[i]
		default:
			entries, k = entries[i+1:], k-i-1
		}
	}
}

// reaching returns the entry at which the weights, added from the greatest down,
// reach need, 1 ≤ need ≤ their sum, and reorders them.
func reaching(entries []entry, need uint64) entry {
	for {
		i := partition(entries)
		before := sum(entries[:i])
		with := before + entries[i].value()
		switch {
		case need <= before:
			entries = entries[:i]
		case need <= with:
			return entries[i]
		default:
			entries, need = entries[i+1:], need-with
		}
	}
}

// partition puts a pivot at the index it returns, the greater entries before it
// and the lesser ones after it. The pivot's place is scattered by the number of
// entries, so that rows with an order of their own are not the slow case.
func partition(entries []entry) int {
	last := len(entries) - 1
	at := int(uint64(uint32(len(entries))*0x9E3779B9) * uint64(len(entries)) >> 32)
	pivot := entries[at]
	entries[at] = entries[last]
	i := 0
	for j, e := range entries[:last] {
		if e > pivot {
			entries[i], entries[j] = e, entries[i]
			i++
		}
	}
	entries[last], entries[i] = entries[i], pivot
	return i
}
