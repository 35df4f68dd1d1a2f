package backendtest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// attentionShape is a test of Store and Attend.
type attentionShape struct {
	name                    string
	heads, kvHeads, headDim int
	blockSize               int
	window                  int // 0: none
	// contexts holds the positions that each sequence has in the cache before
	// the step whose result is compared; the step's rows are shared among the
	// sequences.
	contexts []int
}

var attentionShapes = []attentionShape{
	{"one head, first positions", 1, 1, 64, 16, 0, []int{0}},
	{"every head its own", 3, 3, 32, 16, 0, []int{21}},
	{"three heads a group", 9, 3, 64, 16, 0, []int{0, 40, 5}},
	{"all heads one group", 4, 1, 8, 8, 0, []int{17, 0}},
	{"wide heads, small blocks", 2, 1, 128, 4, 0, []int{30}},
	{"long context", 3, 1, 16, 16, 0, []int{700, 255, 256, 300}},
	{"blocks of 32", 4, 2, 80, 32, 0, []int{33, 513}},
	{"window of one position", 2, 1, 16, 16, 1, []int{0, 300}},
	{"window smaller than a few rows", 4, 2, 32, 16, 3, []int{254, 0}},
	{"window of some blocks", 3, 1, 16, 16, 40, []int{700, 255, 0, 239}},
	{"window of many blocks", 4, 1, 64, 16, 512, []int{500, 1100}},
	{"window beyond the context", 2, 2, 8, 8, 1 << 20, []int{70}},
}

// attend fills a cache step by step and returns the attention of the last step.
// Block tables are out of order, and a first layer holds other values. The queries may be
// such as have 8 bits.
func attend(d *device, rows int, s attentionShape, eightBits bool) []float32 {
	const layers = 2
	var tables [][]int32
	total := 0
	for _, context := range s.contexts {
		n := (context + MaxRows + s.blockSize - 1) / s.blockSize
		tables = append(tables, make([]int32, n))
		total += n
	}
	order := d.rng.Perm(total)
	for i := range tables {
		for j := range tables[i] {
			tables[i][j], order = int32(order[0]), order[1:]
		}
	}
	kv, err := d.b.NewKV(backend.KVShape{Layers: layers, Blocks: total, BlockSize: s.blockSize, Heads: s.kvHeads, HeadDim: s.headDim})
	if err != nil {
		d.t.Fatal(err)
	}
	fill := func(batch *backend.Batch) {
		d.b.Begin(batch)
		for layer := range layers {
			d.b.Store(kv, layer, d.input(s.kvHeads*s.headDim), d.input(s.kvHeads*s.headDim))
		}
	}
	for i, context := range s.contexts {
		for from := 0; from < context; from += MaxRows {
			batch := &backend.Batch{}
			Append(batch, count(min(MaxRows, context-from)), from, tables[i], s.blockSize)
			fill(batch)
			if err := d.b.Sync(); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	batch := &backend.Batch{}
	for i, context := range s.contexts {
		share := rows / len(s.contexts)
		if i == 0 {
			share = rows - share*(len(s.contexts)-1)
		}
		if share > 0 {
			Append(batch, count(share), context, tables[i], s.blockSize)
		}
	}
	batch.Sample = count(batch.Rows())
	fill(batch)
	var q backend.Tensor
	if eightBits {
		q = d.eightBits(s.heads, s.headDim)
	} else {
		q = d.input(s.heads * s.headDim)
	}
	out := d.tensor(s.heads * s.headDim)
	d.b.Attend(out, q, kv, 1, float32(2/math.Sqrt(float64(s.headDim))), s.window)
	return d.read(out)
}

// eightBits is input of heads whose values are 127 or fewer steps from 0, each 32 of a head
// with a step of their own, which the largest has 127 of.
func (d *device) eightBits(heads, headDim int) backend.Tensor {
	d.t.Helper()
	table := randomTensor(d.rng, "random", gguf.F32, 1, uint64(heads*headDim), MaxRows)
	values := make([]float32, heads*headDim*MaxRows)
	if err := gguf.Dequantize(values, table.Data, gguf.F32); err != nil {
		d.t.Fatal(err)
	}
	table.Data = table.Data[:0]
	for head := range slices.Chunk(values, headDim) {
		for block := range slices.Chunk(head, 32) {
			step := max(slices.Max(block), -slices.Min(block)) / 127
			for _, v := range block {
				table.Data = binary.LittleEndian.AppendUint32(table.Data, math.Float32bits(step*float32(math.RoundToEven(float64(v/step)))))
			}
		}
	}
	w, err := d.b.NewWeight(table)
	if err != nil {
		d.t.Fatal(err)
	}
	x := d.tensor(heads * headDim)
	d.b.Embed(x, w, 1)
	return x
}

// count returns 0 … n-1.
func count(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}
