package backendtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// Tolerance says how far a backend's results may be from the reference's: each
// by so much of its own size and the root mean square of all together.
type Tolerance struct {
	// Float is for operations in float32: their sums differ in order only.
	Float float64
	// Cache is for attention, which reads keys and values in the cache's type.
	Cache float64
	// QuantizedCache tells that the cache, and queries beside it, are of 8 bits, and that a
	// block has 16 positions at least. Queries are such then as have 8 bits, so that Cache is
	// for keys and values alone.
	QuantizedCache bool
	// Quantized is for products with quantised weights, whose other operand a
	// backend may quantise as well.
	Quantized float64
	// Model is for the logits of a whole small model.
	Model float64
	// Batch is for those of a sequence alone and among others, or cut into other
	// steps. 0 demands the same bits.
	Batch float64
}

// MaxRows is the batch size for which the suite opens backends. It is above
// every tile that a backend is likely to have, and no multiple of one.
const MaxRows = 77

// Run runs the suite on the backends that open makes, for batches of MaxRows
// rows. The suite closes them.
func Run(t *testing.T, open func(t *testing.T) backend.Backend, tolerance Tolerance) {
	for _, op := range operations(tolerance) {
		t.Run(op.name, func(t *testing.T) {
			got := runOperation(t, open(t), op)
			want := runOperation(t, NewReference(MaxRows), op)
			compare(t, got, want, op.tolerance)
		})
	}
	t.Run("not finite", func(t *testing.T) { testNotFinite(t, open(t)) })
	t.Run("damaged model", func(t *testing.T) { testDamagedModel(t, open) })
	t.Run("draws", func(t *testing.T) { testDraws(t, open) })
	t.Run("drawn tokens", func(t *testing.T) { testDrawnTokens(t, open) })
	eachModel(t, func(t *testing.T, file *gguf.File) {
		t.Run("model", func(t *testing.T) { testModel(t, file, open, tolerance.Model) })
		t.Run("alone or batched", func(t *testing.T) { testAloneOrBatched(t, file, open, tolerance.Batch) })
		t.Run("whole or chunked", func(t *testing.T) { testWholeOrChunked(t, file, open, tolerance.Batch) })
	})
}

// operation is a test of one operation: it computes the same on any backend.
type operation struct {
	name      string
	tolerance float64
	run       func(d *device) []float32
}

// device is a backend with random inputs: the same on each backend, as they are
// drawn in the order of the test from the same seed.
type device struct {
	t   *testing.T
	b   backend.Backend
	rng *rand.Rand
}

func runOperation(t *testing.T, b backend.Backend, op operation) []float32 {
	defer func() {
		if err := b.Close(); err != nil {
			t.Errorf("close %s: %v", b.Name(), err)
		}
	}()
	return op.run(&device{t: t, b: b, rng: rand.New(rand.NewPCG(1, 2))})
}

// weight makes a weight of random values around 1; shape in the file's order.
func (d *device) weight(t gguf.DType, shape ...uint64) backend.Weight {
	d.t.Helper()
	return d.weightOfSize(1, t, shape...)
}

func (d *device) weightOfSize(size float32, t gguf.DType, shape ...uint64) backend.Weight {
	d.t.Helper()
	w, err := d.b.NewWeight(randomTensor(d.rng, "random", t, size, shape...))
	if err != nil {
		d.t.Fatalf("make a %s weight of shape %d: %v", t, shape, err)
	}
	return w
}

func (d *device) tensor(cols int) backend.Tensor {
	d.t.Helper()
	x, err := d.b.NewTensor(cols)
	if err != nil {
		d.t.Fatalf("make a tensor of %d columns: %v", cols, err)
	}
	return x
}

// input makes a tensor whose rows are random in each step: an embedding table
// of the tokens 0 … MaxRows-1 puts them there. The step must have begun.
func (d *device) input(cols int) backend.Tensor {
	d.t.Helper()
	x := d.tensor(cols)
	d.b.Embed(x, d.weight(gguf.F32, uint64(cols), MaxRows), 1)
	return x
}

// begin starts a step of n rows that are one sequence's; row i has token i.
func (d *device) begin(n int) *backend.Batch {
	batch, next := &backend.Batch{Sample: count(n)}, int32(0)
	Append(batch, count(n), 0, Blocks(&next, n, 16), 16)
	d.b.Begin(batch)
	return batch
}

// read ends the step and returns the rows of tensors one after the other, as
// products with the identity matrix in float32, which every backend computes
// without rounding.
func (d *device) read(xs ...backend.Tensor) []float32 {
	d.t.Helper()
	var all []float32
	for _, x := range xs {
		n := x.Cols()
		identity := gguf.Tensor{Name: "identity", Type: gguf.F32, Shape: []uint64{uint64(n), uint64(n)}, Data: make([]byte, 4*n*n)}
		for i := range n {
			binary.LittleEndian.PutUint32(identity.Data[4*(i*n+i):], math.Float32bits(1))
		}
		w, err := d.b.NewWeight(identity)
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, d.logits(w, x)...)
	}
	return all
}

func (d *device) logits(w backend.Weight, x backend.Tensor) []float32 {
	d.t.Helper()
	logits := d.b.Logits(w, x)
	if err := d.b.Sync(); err != nil {
		d.t.Fatalf("%s: %v", d.b.Name(), err)
	}
	return logits
}

// operations lists the tests. Each runs with one row and with many.
func operations(tolerance Tolerance) []operation {
	var ops []operation
	for _, rows := range []int{1, 2, 9, MaxRows} {
		add := func(name string, tolerance float64, run func(d *device) []float32) {
			ops = append(ops, operation{fmt.Sprintf("%s of %d rows", name, rows), tolerance, run})
		}
		for _, t := range []gguf.DType{gguf.F32, gguf.F16, gguf.Q4_0, gguf.Q4_1, gguf.Q8_0, gguf.Q6_K} {
			add("embed "+t.String(), tolerance.Float, func(d *device) []float32 {
				table := d.weight(t, 256, MaxRows)
				x := d.tensor(256)
				d.begin(rows)
				d.b.Embed(x, table, 1.5)
				return d.read(x)
			})
		}
		add("norm", tolerance.Float, func(d *device) []float32 {
			d.begin(rows)
			x, y, w := d.input(100), d.tensor(100), d.weight(gguf.F32, 100)
			d.b.Norm(y, x, w, 1e-5)
			d.b.Norm(x, x, w, 0.5)
			return d.read(x, y)
		})
		add("add norm", tolerance.Float, func(d *device) []float32 {
			d.begin(rows)
			x, y, w := d.input(100), d.input(100), d.weight(gguf.F32, 100)
			d.b.AddNorm(y, x, w, 1e-5)
			return d.read(x, y)
		})
		add("head norm", tolerance.Float, func(d *device) []float32 {
			d.begin(rows)
			x := d.input(3 * 32)
			d.b.HeadNorm(x, d.weight(gguf.F32, 32), 1e-5)
			return d.read(x)
		})
		for _, neox := range []bool{false, true} {
			for _, dims := range []int{32, 16} {
				add(fmt.Sprintf("rotate %d values neox %t", dims, neox), tolerance.Float, func(d *device) []float32 {
					batch := d.begin(rows)
					x, y := d.input(3*32), d.input(32)
					for i := range batch.Positions {
						batch.Positions[i] = int32(i*i*7 + 8000*i)
					}
					rope := backend.Rope{Dims: dims, Freqs: make([]float32, dims/2), Neox: neox}
					for i := range rope.Freqs {
						rope.Freqs[i] = float32(math.Pow(10000, -2*float64(i)/float64(dims)))
					}
					d.b.Rotate(x, 32, rope)
					d.b.Rotate(y, 32, rope)
					return d.read(x, y)
				})
			}
		}
		for _, t := range []gguf.DType{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
			allowed := tolerance.Quantized
			if t == gguf.F32 {
				allowed = tolerance.Float
			}
			add("products "+t.String(), allowed, func(d *device) []float32 { return products(d, rows, t) })
		}
		for _, shape := range attentionShapes {
			if tolerance.QuantizedCache {
				shape.blockSize = max(shape.blockSize, 16)
			}
			add("attend "+shape.name, tolerance.Cache, func(d *device) []float32 { return attend(d, rows, shape, tolerance.QuantizedCache) })
		}
	}
	return ops
}

// products runs every kind of matrix product, with rows that are no multiple of
// a tile. Weights are of a size that keeps the products around 1.
func products(d *device, rows int, t gguf.DType) []float32 {
	const k = 512
	matrix := func(rows uint64) backend.Weight { return d.weightOfSize(0.04, t, k, rows) }
	d.begin(rows)
	x := d.input(k)
	small, large, sum, gated, gelu := d.tensor(48), d.tensor(101), d.input(77), d.tensor(64), d.tensor(40)
	d.b.MatMul(
		[]backend.Tensor{small, large},
		[]backend.Weight{matrix(48), matrix(101)},
		[]backend.Weight{d.weight(gguf.F32, 48), nil}, x)
	d.b.AddMatMul(sum, matrix(77), x)
	d.b.GatedMatMul(gated, matrix(64), matrix(64), x, backend.SiLU)
	d.b.GatedMatMul(gelu, matrix(40), matrix(40), x, backend.GELU)
	return append(d.read(small, large, sum, gated, gelu), d.logits(matrix(99), x)...)
}

// compare checks each result against the reference.
func compare(t *testing.T, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d values, want %d", len(got), len(want))
	}
	var square float64
	for _, x := range want {
		square += float64(x) * float64(x)
	}
	rms := math.Sqrt(square / float64(len(want)))
	if !(rms > 0) || math.IsInf(rms, 0) {
		t.Fatalf("the reference's results are degenerate: root mean square %g", rms)
	}
	bad, worst := 0, 0.0
	for i := range want {
		diff := math.Abs(float64(got[i])-float64(want[i])) / (rms + math.Abs(float64(want[i])))
		worst = max(worst, diff)
		if !(diff <= tolerance) {
			if bad++; bad <= 5 {
				t.Errorf("value %d of %d is %g, want %g: off by %.2g of its size and the root mean square %g, allowed %.2g", i, len(want), got[i], want[i], diff, rms, tolerance)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%d values in all are off, by up to %.2g", bad, worst)
	}
}

// testNotFinite checks that a NaN or an infinity anywhere in a sampled row is
// an error of that step and of no other.
func testNotFinite(t *testing.T, b backend.Backend) {
	defer b.Close() // its error is checked by the other tests
	d := &device{t: t, b: b, rng: rand.New(rand.NewPCG(1, 2))}
	table := randomTensor(d.rng, "table", gguf.F32, 1, 64, 3)
	binary.LittleEndian.PutUint32(table.Data[4*(64*1+5):], math.Float32bits(float32(math.NaN())))
	binary.LittleEndian.PutUint32(table.Data[4*(64*2+5):], math.Float32bits(float32(math.Inf(-1))))
	embedding, err := b.NewWeight(table)
	if err != nil {
		t.Fatal(err)
	}
	head, x := d.weight(gguf.Q8_0, 64, 33), d.tensor(64)
	for _, c := range []struct {
		name   string
		tokens []int32
		sample []int32
		bad    bool
	}{
		{"finite", []int32{0, 0}, []int32{0, 1}, false},
		{"NaN", []int32{0, 1}, []int32{0, 1}, true},
		{"infinity", []int32{2, 0}, []int32{0, 1}, true},
		{"only in a row that is not sampled", []int32{1, 0}, []int32{1}, false},
		{"finite afterwards", []int32{0, 0}, []int32{0}, false},
	} {
		batch := &backend.Batch{Sample: c.sample}
		Append(batch, c.tokens, 0, []int32{0}, 16)
		b.Begin(batch)
		b.Embed(x, embedding, 1)
		b.Logits(head, x)
		if err := b.Sync(); errors.Is(err, backend.ErrNotFinite) != c.bad || (err != nil) != c.bad {
			t.Errorf("%s: error %v, want one that is ErrNotFinite: %t", c.name, err, c.bad)
		}
		drawer, ok := b.(backend.Drawer)
		if !ok {
			continue
		}
		batch.Draws = slices.Repeat([]sample.Draw{{TopP: 1, RepetitionPenalty: 1, Logprobs: -1}}, len(c.sample))
		b.Begin(batch)
		b.Embed(x, embedding, 1)
		drawer.Draw(head, x)
		err := drawer.Queue()
		if err == nil {
			_, err = drawer.Wait()
		}
		if errors.Is(err, backend.ErrNotFinite) != c.bad || (err != nil) != c.bad {
			t.Errorf("%s, drawn from: error %v, want one that is ErrNotFinite: %t", c.name, err, c.bad)
		}
	}
}

// damaging is a backend that makes the eighth element of one tensor NaN, which
// a file with such a tensor would not come to.
type damaging struct {
	backend.Backend
	name string
}

func (b damaging) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	if t.Name == b.name {
		t.Data = slices.Clone(t.Data)
		binary.LittleEndian.PutUint32(t.Data[4*7:], math.Float32bits(float32(math.NaN())))
	}
	return b.Backend.NewWeight(t)
}

// testDamagedModel checks that a NaN in the middle of a model is found at its
// end: no operation on the way may lose it.
func testDamagedModel(t *testing.T, open func(t *testing.T) backend.Backend) {
	for _, name := range []string{"blk.0.attn_norm.weight", "blk.1.attn_v.weight", "blk.1.ffn_norm.weight", "output_norm.weight"} {
		m, err := model.Load(TinyFile(t), damaging{open(t), name})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Reserve(1, 16); err != nil {
			t.Fatal(err)
		}
		batch := &backend.Batch{Sample: []int32{2}}
		Append(batch, []int32{1, 2, 3}, 0, []int32{0}, 16)
		if _, err := m.Forward(batch); !errors.Is(err, backend.ErrNotFinite) {
			t.Errorf("a NaN in %s: error %v, want ErrNotFinite", name, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
