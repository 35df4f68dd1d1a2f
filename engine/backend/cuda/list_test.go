package cuda

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// recording is a backend that records and computes nothing.
type recording struct {
	list
	batch *backend.Batch
	next  uint64 // the next address
}

// address is one that nothing else has.
func (r *recording) address() uint64 {
	r.next += 256
	return r.next
}

func (r *recording) Name() string { return "recording" }
func (r *recording) MaxRows() int { return 64 }
func (r *recording) NewTensor(cols int) (backend.Tensor, error) {
	return &tensor{cols: cols, data: r.address()}, nil
}
func (r *recording) NewWeight(t gguf.Tensor) (backend.Weight, error) {
	l, err := layoutOf(t)
	return &weight{name: t.Name, layout: l, data: r.address()}, err
}
func (r *recording) NewKV(s backend.KVShape) (backend.KV, error) {
	return &cache{shape: s, keys: r.address(), values: r.address()}, nil
}
func (r *recording) KVBytes(s backend.KVShape) int64 { return kvBytes(s) }
func (r *recording) Begin(b *backend.Batch)          { r.reset(); r.batch = b }
func (r *recording) Logits(w backend.Weight, x backend.Tensor) []float32 {
	r.add(op{kind: logits, w: [maxShared]*weight{w.(*weight)}, x: x.(*tensor)})
	return make([]float32, len(r.batch.Sample)*w.Rows())
}
func (r *recording) Sync() error  { return nil }
func (r *recording) Close() error { return nil }

// record returns the operations of a step of a tiny model, and its layers.
func record(t *testing.T, name string) []op {
	t.Helper()
	r := &recording{}
	metadata, tensors := backendtest.TinyFloat(name)
	m, err := model.Load(backendtest.File(t, metadata, tensors), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reserve(4, 16); err != nil {
		t.Fatal(err)
	}
	var next int32
	batch := &backend.Batch{Sample: []int32{0}}
	backendtest.Append(batch, []int32{1}, 3, backendtest.Blocks(&next, 16, 16), 16)
	if _, err := m.Forward(batch); err != nil {
		t.Fatal(err)
	}
	return r.ops
}

// TestLaunchesOfLayers: what a layer of each architecture takes, beside the embedding,
// the logits, and a norm of many rows that no branch ends in: Gemma's first, of all
// others the last.
func TestLaunchesOfLayers(t *testing.T) {
	const layers = 4 // of TinyFloat
	for _, c := range []struct {
		name              string
		few, many, prompt int // launches of a layer
	}{
		{"llama", 5, 7, 8}, {"qwen2", 5, 7, 8}, {"qwen3", 5, 7, 8}, {"gemma3", 7, 7, 8},
	} {
		ops := record(t, c.name)
		first := 0
		if c.name == "gemma3" {
			first = 1
		}
		for _, step := range []struct {
			name       string
			conditions conditions
			want       int
		}{
			{"few rows", conditions{few: true, fewSampled: true, singles: true}, 1 + layers*c.few + 1},
			{"many rows", conditions{singles: true}, 1 + layers*c.many + 1 + 1},
			{"a prompt", conditions{fewSampled: true}, 1 + first + layers*c.prompt + 1},
		} {
			if got := fuse(nil, ops, step.conditions); len(got) != step.want {
				t.Errorf("%s, %s: %d launches, want %d: %v", c.name, step.name, len(got), step.want, got)
			}
		}
	}
}

// TestLaunchesOfManyRows: with weights of few bits, the norms of many rows cost no
// launch but the first and the last of a step.
func TestLaunchesOfManyRows(t *testing.T) {
	ops, layers := llms[0].list(t), llms[0].layers
	for _, step := range []struct {
		name       string
		conditions conditions
		want       int
	}{
		{"of single rows", conditions{singles: true, tiled: true}, 2 + 5*layers + 2},
		{"of prompts", conditions{fewSampled: true, tiled: true}, 2 + 6*layers + 1},
	} {
		if got := fuse(nil, ops, step.conditions); len(got) != step.want {
			t.Errorf("%s: %d launches, want %d: %v", step.name, len(got), step.want, got)
		}
	}
}

// TestStepsAreRecordedAlike: two steps of a model give lists that are equal, by which
// a captured graph is found again, and recording them allocates nothing.
func TestStepsAreRecordedAlike(t *testing.T) {
	r := &recording{}
	x, k, w := &tensor{cols: 64}, &tensor{cols: 64}, &weight{}
	rope := backend.Rope{Dims: 4, Freqs: []float32{1, 2}}
	kv := &cache{shape: backend.KVShape{HeadDim: 64}}
	tensors, weights := []backend.Tensor{x, k}, []backend.Weight{w, w}
	step := func() {
		r.reset()
		r.Embed(x, w, 1)
		r.Norm(k, x, w, 1e-5)
		r.MatMul(tensors, weights, nil, k)
		r.Rotate(x, 64, rope)
		r.Store(kv, 0, k, x)
		r.Attend(x, x, kv, 0, 1, 0)
	}
	step()
	first := slices.Clone(r.ops)
	r.ropes[0].data = 256 // the first step puts the angles on the device
	step()
	if !slices.Equal(first, r.ops) {
		t.Errorf("the second step is recorded as %v, the first as %v", r.ops, first)
	}
	if n := testing.AllocsPerRun(10, step); n != 0 {
		t.Errorf("%v allocations to record a step, want none", n)
	}
}

// TestMoreMatricesThanAProductShares: four matrices are two products.
func TestMoreMatricesThanAProductShares(t *testing.T) {
	r := &recording{}
	var dst []backend.Tensor
	var w, bias []backend.Weight
	for range 4 {
		dst, w, bias = append(dst, &tensor{}), append(w, &weight{}), append(bias, &weight{})
	}
	x := &tensor{}
	r.MatMul(dst, w, bias, x)
	if len(r.ops) != 2 || r.ops[1].dst[0] != dst[3] || r.ops[1].w[0] != w[3] || r.ops[1].bias[0] != bias[3] || r.ops[1].x != x || r.ops[1].dst[1] != nil {
		t.Errorf("recorded as %+v", r.ops)
	}
}

// machine computes lists with symbols: a tensor holds the hash of how it came to
// be. What reaches the host or the cache is written down.
type machine struct {
	holds map[*tensor]uint64
	cache map[int]uint64 // by layer
	out   []uint64
	// What the last addProductNorm left: its result, and the norm's weights.
	squared  uint64
	scaledBy *weight
}

var seed = maphash.MakeSeed()

func symbol(parts ...any) uint64 { return maphash.String(seed, fmt.Sprintln(parts...)) }

func id(w *weight) string { return fmt.Sprintf("%p", w) }

func (m *machine) normed(x uint64, w *weight, eps float32) uint64 {
	if w == nil {
		return x
	}
	return symbol("norm", x, id(w), eps)
}

// input is what a product multiplies. What lacks its roots is worth nothing but to the
// product that finds the squares of the same rows.
func (m *machine) input(o *op) uint64 {
	x := m.holds[o.x]
	if o.rootless && x == symbol("scaled", id(m.scaledBy)) {
		return m.normed(m.squared, m.scaledBy, o.eps)
	}
	return m.normed(x, o.norm, o.eps)
}

func (m *machine) run(ops []op) {
	for i := range ops {
		o := &ops[i]
		x := m.holds[o.x]
		switch o.kind {
		case embed:
			m.holds[o.dst[0]] = symbol("embed", id(o.w[0]))
		case norm:
			m.holds[o.dst[0]] = m.normed(x, o.w[0], o.eps)
		case addNorm:
			m.holds[o.dst[0]] = symbol("add", m.holds[o.dst[0]], m.normed(x, o.w[0], o.eps))
		case addNormNorm:
			y := symbol("add", m.holds[o.dst[0]], m.normed(x, o.w[0], o.eps))
			m.holds[o.dst[0]] = y
			m.holds[o.dst[1]] = m.normed(y, o.w[1], o.eps)
		case product:
			in := m.input(o)
			for j, dst := range o.dst {
				if dst != nil {
					m.holds[dst] = symbol("product", in, id(o.w[j]), id(o.bias[j]))
				}
			}
		case addProduct:
			m.holds[o.dst[0]] = symbol("add", m.holds[o.dst[0]], symbol("product", x, id(o.w[0])))
		case addProductNorm:
			y := symbol("add", m.holds[o.dst[0]], symbol("product", x, id(o.w[0])))
			m.holds[o.dst[0]], m.holds[o.dst[1]] = y, symbol("scaled", id(o.norm))
			m.squared, m.scaledBy = y, o.norm
		case gatedProduct:
			m.holds[o.dst[0]] = symbol("gated", m.input(o), id(o.w[0]), id(o.w[1]), o.act)
		case headNorm:
			m.holds[o.x] = symbol("heads", x, id(o.w[0]), o.eps)
		case rotate:
			m.holds[o.x] = symbol("rotate", x, fmt.Sprintf("%p", o.rope))
		case store:
			m.store(o.layer, m.holds[o.keys], m.holds[o.vals])
		case finishHeads, finishAttend:
			heads := func(x uint64, w *weight) uint64 {
				if w != nil {
					x = symbol("heads", x, id(w), o.eps)
				}
				return symbol("rotate", x, fmt.Sprintf("%p", o.rope))
			}
			m.store(o.layer, heads(m.holds[o.keys], o.kNorm), m.holds[o.vals])
			if o.kind == finishHeads {
				m.holds[o.x] = heads(x, o.norm)
				continue
			}
			m.holds[o.dst[0]] = symbol("attend", heads(x, o.norm), m.cache[o.layer], o.scale, o.window)
		case attend:
			m.holds[o.dst[0]] = symbol("attend", x, m.cache[o.layer], o.scale, o.window)
		case logits:
			m.out = append(m.out, symbol("logits", m.normed(x, o.norm, o.eps), id(o.w[0])))
		}
	}
}

func (m *machine) store(layer int, k, v uint64) {
	m.cache[layer] = symbol("store", m.cache[layer], k, v)
	m.out = append(m.out, m.cache[layer])
}

func run(ops []op) []uint64 {
	m := &machine{holds: make(map[*tensor]uint64), cache: make(map[int]uint64)}
	m.run(ops)
	return m.out
}

// TestFusedListsDoTheSame: on lists at random, most of which hold what is fused and
// some of which read what a fused launch would not have written.
func TestFusedListsDoTheSame(t *testing.T) {
	const cases = 5000
	rng := rand.New(rand.NewPCG(1, 2))
	saved, kept := 0, 0
	for range cases {
		var l list
		tensors, weights := make([]*tensor, 4), make([]*weight, 3)
		for i := range tensors {
			tensors[i] = &tensor{cols: 64}
		}
		for i := range weights {
			weights[i] = &weight{}
			weights[i].layout.Cols = 64
			if i < 2 {
				weights[i].layout.Format = kernels.Q8_0
			}
		}
		kv := &cache{shape: backend.KVShape{HeadDim: 64}}
		ropes := []backend.Rope{{Dims: 2, Freqs: []float32{1}}, {Dims: 2, Freqs: []float32{2}}}
		T := func() *tensor { return tensors[rng.IntN(len(tensors))] }
		W := func() *weight { return weights[rng.IntN(len(weights))] }
		for range 1 + rng.IntN(8) {
			switch rng.IntN(9) {
			case 0:
				l.Embed(T(), W(), 1)
			case 1, 2, 3:
				y, x := T(), T()
				l.Norm(y, x, W(), float32(rng.IntN(2)))
				if rng.IntN(4) == 0 {
					y = T()
				}
				switch rng.IntN(3) {
				case 0:
					l.MatMul([]backend.Tensor{T()}, []backend.Weight{W()}, nil, y)
				case 1:
					l.GatedMatMul(T(), W(), W(), y, backend.SiLU)
				case 2:
					l.add(op{kind: logits, w: [maxShared]*weight{W()}, x: y})
				}
			case 4, 5:
				q, k := T(), T()
				if rng.IntN(2) == 0 {
					l.HeadNorm(q, W(), 1)
					l.HeadNorm(k, W(), float32(1+rng.IntN(4)/3))
				}
				l.Rotate(q, 64, ropes[0])
				l.Rotate(k, 64, ropes[rng.IntN(4)/3])
				if rng.IntN(5) == 0 {
					k = T()
				}
				layer := rng.IntN(2)
				l.Store(kv, layer, k, T())
				if rng.IntN(3) > 0 {
					l.Attend(T(), q, kv, layer^rng.IntN(4)/3, 1, 0)
				}
			case 6:
				l.Attend(T(), T(), kv, rng.IntN(2), 1, 0)
			case 7:
				y, normed := T(), T()
				l.AddMatMul(y, W(), T())
				if rng.IntN(3) > 0 {
					l.Norm(normed, y, W(), float32(rng.IntN(2)))
					if rng.IntN(2) == 0 {
						l.MatMul([]backend.Tensor{T()}, []backend.Weight{W()}, nil, normed)
					} else {
						l.GatedMatMul(T(), W(), W(), normed, backend.SiLU)
					}
				}
			case 8:
				y := T()
				l.AddNorm(y, T(), W(), 1)
				if rng.IntN(3) > 0 {
					l.Norm(T(), y, W(), float32(1+rng.IntN(4)/3))
				}
			}
		}
		l.add(op{kind: logits, w: [maxShared]*weight{W()}, x: T()})
		for _, normed := range []bool{false, true} {
			fused := fuse(nil, l.ops, conditions{few: normed, fewSampled: rng.IntN(2) == 0, singles: rng.IntN(2) == 0, tiled: rng.IntN(2) == 0})
			if got, want := run(fused), run(l.ops); !slices.Equal(got, want) {
				t.Fatalf("fused to %+v:\ngot  %v\nwant %v, of %+v", fused, got, want, l.ops)
			}
			saved += len(l.ops) - len(fused)
			if len(l.ops) == len(fused) {
				kept++
			}
		}
	}
	if saved < cases || kept < cases/10 {
		t.Errorf("%d launches saved in %d lists, %d kept as they were: the cases are not what they are meant to be", saved, 2*cases, kept)
	}
}
