package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// quantizedCase is a test of attention over a cache of 8 bits.
type quantizedCase struct {
	heads, kvHeads, headDim int
	blockSize, window       int
	blocks                  int   // of the cache, at least what the sequences need
	lengths                 []int // of the sequences
	chunk                   int   // positions of a sequence in a step
	threads                 int
}

var quantizedCases = []quantizedCase{
	{heads: 3, kvHeads: 1, headDim: 64, blockSize: 16, blocks: 9, lengths: []int{130}, chunk: 130, threads: 1},
	{heads: 9, kvHeads: 3, headDim: 64, blockSize: 16, blocks: 45, lengths: []int{300, 7, 261}, chunk: 37, threads: 3},
	{heads: 4, kvHeads: 2, headDim: 80, blockSize: 32, blocks: 22, lengths: []int{520, 33}, chunk: 75, threads: 1},
	{heads: 4, kvHeads: 1, headDim: 8, blockSize: 16, blocks: 20, lengths: []int{17, 90}, chunk: 5, threads: 2},
	{heads: 2, kvHeads: 2, headDim: 128, blockSize: 256, blocks: 3, lengths: []int{270, 20}, chunk: 90, threads: 2},
	{heads: 3, kvHeads: 1, headDim: 32, blockSize: 16, window: 1, blocks: 30, lengths: []int{280, 30}, chunk: 11, threads: 1},
	{heads: 4, kvHeads: 2, headDim: 32, blockSize: 16, window: 21, blocks: 40, lengths: []int{300, 260}, chunk: 29, threads: 2},
	{heads: 3, kvHeads: 1, headDim: 96, blockSize: 64, window: 300, blocks: 11, lengths: []int{620}, chunk: 61, threads: 3},
}

func (c quantizedCase) String() string {
	return fmt.Sprintf("%d of %d heads of %d, blocks of %d, window %d, chunks of %d", c.heads, c.kvHeads, c.headDim, c.blockSize, c.window, c.chunk)
}

// eightBits is what Quantize is documented to make of a head, padded to whole blocks: codes
// and a scale for each 32 of them.
func eightBits(x []float32) (codes []int, scales []float32) {
	for from := 0; from < len(x); from += 32 {
		block := x[from:min(from+32, len(x))]
		var largest float32
		for _, v := range block {
			largest = max(largest, float32(math.Abs(float64(v))))
		}
		inverse := 127 / largest
		for _, v := range block {
			codes = append(codes, int(math.RoundToEven(float64(v*inverse))))
		}
		scales = append(scales, largest/127)
	}
	return codes, scales
}

// stored is a head's key or value as the cache holds it: the scales are halves.
func stored(x []float32) []float64 {
	codes, scales := eightBits(x)
	out := make([]float64, len(x))
	for i := range out {
		out[i] = float64(codes[i]) * float64(kernels.F32FromF16(kernels.F16FromF32(scales[i/32])))
	}
	return out
}

// asked is a head's query as the products of scores take it.
func asked(x []float32, scale float32) []float64 {
	scaled := make([]float32, len(x))
	for i, v := range x {
		scaled[i] = v * scale
	}
	codes, scales := eightBits(scaled)
	out := make([]float64, len(x))
	for i := range out {
		out[i] = float64(codes[i]) * float64(scales[i/32])
	}
	return out
}

// attention is softmax(q·k)·v over the keys and values given, and how far from it float32 may
// be: a score joins a block at a time, its weight errs by as much as the score, and weighted
// values join one by one.
func attention(q []float64, k, v [][]float64) (out, allowed []float64) {
	scores, highest, scoreError := make([]float64, len(k)), math.Inf(-1), 0.0
	for j := range k {
		size := 0.0
		for i, x := range q {
			scores[j] += x * k[j][i]
			size += math.Abs(x * k[j][i])
		}
		highest = max(highest, scores[j])
		scoreError = max(scoreError, size*float64(len(q)/32+3)*0x1p-24)
	}
	out, allowed = make([]float64, len(q)), make([]float64, len(q))
	sum := 0.0
	for j, s := range scores {
		w := math.Exp(s - highest)
		sum += w
		for i, x := range v[j] {
			out[i] += w * x
			allowed[i] += w * math.Abs(x)
		}
	}
	for i := range out {
		out[i] /= sum
		allowed[i] = allowed[i]/sum*(4*scoreError+float64(len(k)+20)*0x1p-23) + 1e-30
	}
	return out, allowed
}

// TestQuantizedAttention compares attention with float64 over the keys, values and queries that
// 8 bits leave. The cache's memory holds what it should never read.
func TestQuantizedAttention(t *testing.T) {
	for _, c := range quantizedCases {
		for _, level := range []kernels.Level{kernels.Generic, kernels.Best()} {
			t.Run(fmt.Sprint(c, ", ", level), func(t *testing.T) { testQuantizedAttention(t, c, level) })
		}
	}
}

func testQuantizedAttention(t *testing.T, c quantizedCase, level kernels.Level) {
	const layers, scale = 2, 0.4
	b, err := New(Options{Threads: c.threads, Level: level.String(), MaxRows: c.chunk * len(c.lengths), KVType: KVQ8})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kv, err := b.NewKV(backend.KVShape{Layers: layers, Blocks: c.blocks, BlockSize: c.blockSize, Heads: c.kvHeads, HeadDim: c.headDim})
	if err != nil {
		t.Fatal(err)
	}
	for i := range kv.(*cache).q8 {
		kv.(*cache).q8[i] = 0x7e // NaN as a scale
	}
	r := rand.New(rand.NewPCG(uint64(c.headDim), uint64(c.chunk)))
	// Tables begin with neighbouring blocks, and go on with blocks that lie anywhere.
	var free []int32
	for i := range c.blocks {
		free = append(free, int32(i))
	}
	far := free[c.blocks/2:]
	r.Shuffle(len(far), func(i, j int) { far[i], far[j] = far[j], far[i] })
	var tables [][]int32
	for _, length := range c.lengths {
		n := (length + c.blockSize - 1) / c.blockSize
		tables = append(tables, free[:n])
		free = free[n:]
	}
	newTensor := func(heads int) *tensor {
		x, err := b.NewTensor(heads * c.headDim)
		if err != nil {
			t.Fatal(err)
		}
		return x.(*tensor)
	}
	q, k, v, dst := newTensor(c.heads), newTensor(c.kvHeads), newTensor(c.kvHeads), newTensor(c.heads)
	// Of each sequence and key head, as float64, position by position.
	keys, values := make([][][]float64, len(c.lengths)*c.kvHeads), make([][][]float64, len(c.lengths)*c.kvHeads)
	for from := 0; ; from += c.chunk {
		batch := &backend.Batch{}
		var of []int // the sequence of each row
		for s, length := range c.lengths {
			if n := min(c.chunk, length-from); n > 0 {
				backendtest.Append(batch, make([]int32, n), from, tables[s], c.blockSize)
				for range n {
					of = append(of, s)
				}
			}
		}
		if batch.Rows() == 0 {
			return
		}
		b.Begin(batch)
		for layer := range layers {
			for _, x := range []*tensor{q, k, v} {
				for i := range x.data {
					x.data[i] = float32(r.NormFloat64())
				}
			}
			b.Store(kv, layer, k, v)
		}
		for row, s := range of {
			for head := range c.kvHeads {
				at := s*c.kvHeads + head
				keys[at] = append(keys[at], stored(k.row(row)[head*c.headDim:][:c.headDim]))
				values[at] = append(values[at], stored(v.row(row)[head*c.headDim:][:c.headDim]))
			}
		}
		b.Attend(dst, q, kv, layers-1, scale, c.window)
		for row, s := range of {
			end := int(batch.Positions[row]) + 1
			start := 0
			if c.window > 0 {
				start = max(0, end-c.window)
			}
			for head := range c.heads {
				at := s*c.kvHeads + head/(c.heads/c.kvHeads)
				want, allowed := attention(asked(q.row(row)[head*c.headDim:][:c.headDim], scale), keys[at][start:end], values[at][start:end])
				for i, got := range dst.row(row)[head*c.headDim:][:c.headDim] {
					if !(math.Abs(float64(got)-want[i]) <= allowed[i]) {
						t.Fatalf("sequence %d, position %d, head %d, value %d: got %g, want %g ± %g", s, end-1, head, i, got, want[i], allowed[i])
					}
				}
			}
		}
	}
}

// A block must hold whole groups of keys.
func TestQuantizedCacheRefusesSmallBlocks(t *testing.T) {
	b, err := New(Options{Threads: 1, KVType: KVQ8})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	shape := backend.KVShape{Layers: 1, Blocks: 4, BlockSize: 8, Heads: 1, HeadDim: 32}
	if _, err := b.NewKV(shape); err == nil || !strings.Contains(err.Error(), "blocks of 8 positions") || !strings.Contains(err.Error(), "16 or more") {
		t.Errorf("got %v, want an error that names the size and what would do", err)
	}
	shape.BlockSize = 16
	if _, err := b.NewKV(shape); err != nil {
		t.Error(err)
	}
}
