package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
)

const (
	testVocab = 259
	testEOS   = 257
	blockSize = 16
)

// newModel makes a device that adds its steps' times to the list.
func newModel(t testing.TB, o Options, blocks int) (*Model, *[]time.Duration) {
	t.Helper()
	slept := new([]time.Duration)
	o.Vocab, o.EOS = testVocab, testEOS
	o.Sleep = func(d time.Duration) { *slept = append(*slept, d) }
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reserve(blocks, blockSize); err != nil {
		t.Fatal(err)
	}
	return m, slept
}

// add puts a sequence's last rows into the batch and samples the last one. Its
// blocks begin at first.
func add(b *backend.Batch, tokens []int32, rows, first int) {
	row := len(b.Tokens)
	var blocks []int32
	for i := 0; i*blockSize < len(tokens); i++ {
		blocks = append(blocks, int32(first+i))
	}
	for p := len(tokens) - rows; p < len(tokens); p++ {
		b.Tokens = append(b.Tokens, tokens[p])
		b.Positions = append(b.Positions, int32(p))
		b.Slots = append(b.Slots, blocks[p/blockSize]*blockSize+int32(p%blockSize))
	}
	b.Seqs = append(b.Seqs, backend.Seq{Row: int32(row), Len: int32(rows), Context: int32(len(tokens)), Blocks: blocks})
	b.Sample = append(b.Sample, int32(len(b.Tokens)-1))
}

func tokens(text string) []int32 {
	var ids []int32
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

func TestStepTime(t *testing.T) {
	o := Options{StepBase: 5 * time.Millisecond, PerSequence: 100 * time.Microsecond, PrefillPerToken: 7 * time.Microsecond}
	prompt := tokens(strings.Repeat("x", 100))
	for _, c := range []struct {
		name string
		rows []int // of each sequence
		want time.Duration
	}{
		{"one decoding", []int{1}, 5100 * time.Microsecond},
		{"three decoding", []int{1, 1, 1}, 5300 * time.Microsecond},
		{"a prompt", []int{100}, 5800 * time.Microsecond},
		{"a chunk among decoding", []int{1, 40, 1}, 5580 * time.Microsecond},
		{"two chunks", []int{2, 3}, 5235 * time.Microsecond},
		{"nothing", nil, 5000 * time.Microsecond},
	} {
		m, slept := newModel(t, o, 100)
		var b backend.Batch
		for i, rows := range c.rows {
			add(&b, prompt, rows, i*7)
		}
		if _, err := m.Forward(&b); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if want := []time.Duration{c.want}; !slices.Equal(*slept, want) {
			t.Errorf("%s: rows %v take %v, want %v", c.name, c.rows, *slept, want)
		}
	}
}

func TestJitter(t *testing.T) {
	const steps = 2000
	times := func(seed uint64) []time.Duration {
		m, slept := newModel(t, Options{StepBase: time.Second, Jitter: 10 * time.Millisecond, Seed: seed}, 1)
		var b backend.Batch
		add(&b, tokens("a"), 1, 0)
		for range steps {
			if _, err := m.Forward(&b); err != nil {
				t.Fatal(err)
			}
		}
		return *slept
	}
	one := times(1)
	if !slices.Equal(one, times(1)) {
		t.Error("seed 1 gives other times the second time")
	}
	if slices.Equal(one, times(2)) {
		t.Error("seeds 1 and 2 give the same times")
	}
	var sum time.Duration
	for i, d := range one {
		j := d - time.Second
		if j < 0 || j >= 10*time.Millisecond {
			t.Fatalf("step %d: jitter %s is not in 0s … 10ms", i, j)
		}
		sum += j
	}
	// The mean of 2,000 uniform numbers is within 4 standard errors of 65 µs.
	if mean := sum / steps; mean < 4740*time.Microsecond || mean > 5260*time.Microsecond {
		t.Errorf("mean jitter is %s, want about 5ms; seed 1", mean)
	}
}

// The first numbers of splitmix64.c of https://prng.di.unimi.it from state
// 1234567, as listed at https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
func TestMixKnownAnswers(t *testing.T) {
	state := uint64(1234567)
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		state += gamma
		if got := mix(state); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

// greedy generates up to limit tokens after the prompt, without the banned ones.
func greedy(t *testing.T, m *Model, prompt []int32, limit int, banned ...int32) []int32 {
	t.Helper()
	known, rows := slices.Clone(prompt), len(prompt)
	for range limit {
		var b backend.Batch
		add(&b, known, rows, 0)
		logits, err := m.Forward(&b)
		if err != nil {
			t.Fatal(err)
		}
		best := int32(-1)
		for id := range logits {
			if !slices.Contains(banned, int32(id)) && (best < 0 || logits[id] > logits[best]) {
				best = int32(id)
			}
		}
		known, rows = append(known, best), 1
		if best == testEOS {
			break
		}
	}
	return known[len(prompt):]
}

func text(ids []int32) string {
	var s strings.Builder
	for _, id := range ids {
		if id < numBytes {
			s.WriteByte(byte(id))
		}
	}
	return s.String()
}

func TestTextEndsByItself(t *testing.T) {
	m, _ := newModel(t, Options{}, 1000)
	for _, n := range []int{1, 2, 100, len(passage) - 1, len(passage), len(passage) + 1, 3*len(passage) - 20} {
		got := greedy(t, m, tokens(strings.Repeat("q", n)), 2*len(passage))
		want := ""
		if n%len(passage) > 0 {
			want = passage[n%len(passage):]
		}
		if text(got) != want || len(got) != len(want)+1 || got[len(got)-1] != testEOS {
			t.Errorf("a prompt of %d tokens gets %d tokens, %q; want %q and the end token", n, len(got), text(got), want)
		}
	}
}

func TestTextWithoutEnd(t *testing.T) {
	m, _ := newModel(t, Options{}, 1000)
	prompt := tokens("Why?")
	got := text(greedy(t, m, prompt, 1000, testEOS))
	if want := strings.Repeat(passage, 4)[len(prompt):][:1000]; got != want {
		t.Errorf("with the end token banned %q, want %q", got, want)
	}
	if got := greedy(t, m, prompt, 10); len(got) != 10 || text(got) != passage[4:14] {
		t.Errorf("10 tokens: %q, want %q", text(got), passage[4:14])
	}
}

func TestPassageIsPrintable(t *testing.T) {
	for i, c := range []byte(passage) {
		if c < ' ' || c > '~' {
			t.Errorf("byte %d is %q, want printable ASCII", i, c)
		}
	}
}

// TestProbabilities sees that at temperature 1 there is a choice, and a
// printable one.
func TestProbabilities(t *testing.T) {
	row := make([]float32, testVocab)
	choices := 0
	for position := range int32(2 * len(passage)) {
		writeLogits(row, 'e', position, testEOS)
		var total, printable, most float64
		for id, x := range row {
			w := math.Exp(float64(x))
			total += w
			most = max(most, w)
			if x == rival {
				choices++
			}
			if id >= ' ' && id <= '~' || id == testEOS {
				printable += w
			}
		}
		if p := most / total; p < 0.75 {
			t.Errorf("position %d: the likeliest token has probability %.3f, want about 0.9", position, p)
		}
		if printable/total < 1-1e-9 {
			t.Errorf("position %d: probability %g of what cannot be printed", position, 1-printable/total)
		}
	}
	if mean := float64(choices) / float64(2*len(passage)); mean < 2 || mean > numRivals {
		t.Errorf("%.2f rivals at a position, want 2 … %d", mean, numRivals)
	}
}

// TestAloneAsBatched computes 5,000 sequences at once and each alone.
func TestAloneAsBatched(t *testing.T) {
	const numSeqs = 5000
	m, slept := newModel(t, Options{StepBase: time.Millisecond, PerSequence: time.Microsecond}, numSeqs*2)
	var b backend.Batch
	prompts := make([][]int32, numSeqs)
	for i := range prompts {
		prompts[i] = tokens(strings.Repeat(string(rune('a'+i%26)), 1+i%31))
		add(&b, prompts[i], 1, 2*i)
	}
	logits, err := m.Forward(&b)
	if err != nil {
		t.Fatal(err)
	}
	if want := numSeqs * testVocab; len(logits) != want {
		t.Fatalf("%d logits, want %d", len(logits), want)
	}
	if got, want := (*slept)[0], 6*time.Millisecond; got != want {
		t.Errorf("a step of %d sequences takes %s, want %s", numSeqs, got, want)
	}
	batched := slices.Clone(logits)
	for i := 0; i < numSeqs; i += 7 {
		for _, rows := range []int{1, len(prompts[i])} { // decoded, and as one prompt
			b.Reset()
			add(&b, prompts[i], rows, 3)
			alone, err := m.Forward(&b)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(alone, batched[i*testVocab:(i+1)*testVocab]) {
				t.Fatalf("sequence %d, %q in %d rows, has other logits alone than batched", i, text(prompts[i]), rows)
			}
		}
	}
}

func TestLogitsDependOnTokenAndPosition(t *testing.T) {
	a, b, c := make([]float32, testVocab), make([]float32, testVocab), make([]float32, testVocab)
	writeLogits(a, 'a', 7, testEOS)
	writeLogits(b, 'b', 7, testEOS)
	writeLogits(c, 'a', 8, testEOS)
	if slices.Equal(a, b) || slices.Equal(a, c) {
		t.Error("another token or position gives the same logits")
	}
}

func TestForwardDoesNotAllocate(t *testing.T) {
	o := Options{Vocab: testVocab, EOS: testEOS, Sleep: func(time.Duration) {}}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reserve(2000, blockSize); err != nil {
		t.Fatal(err)
	}
	var b backend.Batch
	for i := range 1000 {
		add(&b, tokens("hello"), 1+i%5, i)
	}
	if n := testing.AllocsPerRun(20, func() {
		if _, err := m.Forward(&b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a step, want 0", n)
	}
}

func TestLife(t *testing.T) {
	m, err := New(Options{Vocab: testVocab, EOS: testEOS})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Shape(); s.Vocab != testVocab || s.Context != 8192 || s.MaxRows != 8192 || s.KVBytes != 0 {
		t.Errorf("shape %+v, want %d tokens, 8192 of context and rows, no memory", s, testVocab)
	}
	expect := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", what, err, want)
		}
	}
	_, err = m.Forward(new(backend.Batch))
	expect("forward before reserve", err, "no cache is reserved")
	expect("no blocks", m.Reserve(0, 16), "0 blocks of 16 positions are not a cache")
	expect("negative blocks", m.Reserve(-1, -1), "are not a cache")
	expect("too many slots", m.Reserve(1<<28, 16), "268435456 blocks of 16 positions are more than 2147483648 slots")
	if err := m.Reserve(1<<27, 16); err != nil {
		t.Errorf("the largest cache: %v", err)
	}
	expect("reserve twice", m.Reserve(1, 16), "reserved already")
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	_, err = m.Forward(new(backend.Batch))
	expect("forward after close", err, "closed")
}

func BenchmarkForward(b *testing.B) {
	m, err := New(Options{Vocab: testVocab, EOS: testEOS, Sleep: func(time.Duration) {}})
	if err != nil {
		b.Fatal(err)
	}
	if err := m.Reserve(5000, blockSize); err != nil {
		b.Fatal(err)
	}
	var batch backend.Batch
	for i := range 5000 {
		add(&batch, tokens("hello"), 1, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Forward(&batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
}
