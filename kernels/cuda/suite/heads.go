//go:build cuda && cgo && linux

package suite

import (
	"fmt"
	"math"
	"slices"

	half "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// rotation is a cuda.Rope on the host.
type rotation struct {
	dims  int
	freqs []float32
	neox  bool
}

// newRotation has the frequencies of RoFormer: base^(-2i/dims).
func newRotation(dims int, base float64, neox bool) rotation {
	r := rotation{dims: dims, neox: neox}
	for i := range dims / 2 {
		r.freqs = append(r.freqs, float32(math.Pow(base, -2*float64(i)/float64(dims))))
	}
	return r
}

func (r rotation) onDevice(b *Bench) cuda.Rope {
	return cuda.Rope{Dims: r.dims, Freqs: b.Floats(r.freqs), Neox: r.neox}
}

// apply rotates a head, in float64.
func (r rotation) apply(head []float64, position int32) {
	for i, freq := range r.freqs {
		sin, cos := math.Sincos(float64(position) * float64(freq))
		first, second := 2*i, 2*i+1
		if r.neox {
			first, second = i, i+r.dims/2
		}
		u, v := head[first], head[second]
		head[first], head[second] = u*cos-v*sin, u*sin+v*cos
	}
}

// finishHead is what becomes of one head of q or k; norm may be nil.
func finishHead(x, norm []float32, eps float32, r rotation, position int32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	if norm != nil {
		out = rmsNorm(x, norm, eps)
	}
	r.apply(out, position)
	return out
}

// eachHead applies f to all heads of rows.
func eachHead(x []float32, rows, dim int, f func(row int, head []float32) []float64) []float64 {
	var out []float64
	cols := len(x) / rows
	for at := 0; at < len(x); at += dim {
		out = append(out, f(at/cols, x[at:at+dim])...)
	}
	return out
}

// positionsFor mixes small positions and the largest that models have.
func positionsFor(b *Bench, rows int) []int32 {
	some := []int32{0, 1, 131071, 32767, 77, 4096, 1 << 20}
	positions := make([]int32, rows)
	for i := range positions {
		positions[i] = some[i%len(some)]
		if i >= len(some) {
			positions[i] = b.Rand.Int32N(32768)
		}
	}
	return positions
}

// rotated is for two products of a value of the standard normal distribution (5 at
// most, times the norm's weight of the same) with a sine that is wrong by 2e-7.
var rotated = Tolerance{Absolute: 1e-5, Relative: summed.Relative}

func headCases() []Case {
	var cases []Case
	for _, shape := range []struct{ rows, heads, dim int }{{1, 1, 2}, {3, 5, 64}, {17, 9, 80}, {33, 3, 96}, {77, 1, 128}, {2, 7, 256}, {5, 4, 16}, {3, 3, 34}} {
		name := numbered("rows", shape.rows, "heads", shape.heads, "values", shape.dim)
		n := shape.rows * shape.heads * shape.dim
		cases = append(cases, Case{"finish_heads", "norm: " + name, func(b *Bench) error {
			x, w := b.Normal(n, 3), b.Normal(shape.dim, 1)
			p := b.Floats(x)
			b.Do(b.Kernels.HeadNorm(b.Stream, p, b.Floats(w), shape.rows, shape.heads, shape.dim, 1e-6))
			want := eachHead(x, shape.rows, shape.dim, func(_ int, head []float32) []float64 { return rmsNorm(head, w, 1e-6) })
			return Compare(b.ReadFloats(p, n), want, shape.dim, summed)
		}})
		for _, neox := range []bool{false, true} {
			for _, dims := range slices.Compact([]int{shape.dim, max(2, shape.dim/4*2)}) {
				cases = append(cases, Case{"finish_heads", fmt.Sprintf("rotate %d, neox %t: %s", dims, neox, name), func(b *Bench) error {
					x, positions, r := b.Normal(n, 1), positionsFor(b, shape.rows), newRotation(dims, 10000, neox)
					p := b.Floats(x)
					b.Do(b.Kernels.Rotate(b.Stream, p, b.Ints(positions), shape.rows, shape.heads, shape.dim, r.onDevice(b)))
					want := eachHead(x, shape.rows, shape.dim, func(row int, head []float32) []float64 {
						return finishHead(head, nil, 0, r, positions[row])
					})
					return Compare(b.ReadFloats(p, n), want, shape.dim, rotated)
				}})
			}
		}
	}
	for _, shape := range []qkvShape{
		{1, 1, 1, 64, 16, false, false}, {3, 9, 3, 64, 16, false, false}, {17, 14, 2, 64, 32, true, false}, {33, 5, 1, 128, 16, true, true},
		{77, 3, 3, 80, 32, false, true}, {2, 8, 4, 256, 16, true, true}, {7, 4, 2, 8, 4, true, true}, {5, 6, 2, 96, 16, false, false},
	} {
		name := fmt.Sprintf("%d rows, %d/%d heads of %d, blocks of %d", shape.rows, shape.heads, shape.kvHeads, shape.dim, shape.blockSize)
		cases = append(cases,
			Case{"finish_heads", "store: " + name, shape.store},
			Case{"finish_heads", fmt.Sprintf("q, k, v with norm %t, neox %t: %s", shape.norm, shape.neox, name), shape.finish})
	}
	return cases
}

// qkvShape is a step's queries, keys and values.
type qkvShape struct {
	rows, heads, kvHeads, dim, blockSize int
	norm, neox                           bool
}

// cacheFor makes a cache with room for all rows and some more, of a bit pattern that
// no test stores, and slots in any order, of which some store nothing.
func (s qkvShape) cacheFor(b *Bench) (layer cuda.CacheLayer, slots []int32, keys, values []uint16) {
	blocks := (s.rows+s.blockSize-1)/s.blockSize + 2
	keys = make([]uint16, blocks*s.blockSize*s.kvHeads*s.dim)
	for i := range keys {
		keys[i] = untouched
	}
	values = slices.Clone(keys)
	for row, slot := range b.Rand.Perm(blocks * s.blockSize)[:s.rows] {
		if row%4 == 2 {
			slot = -1
		}
		slots = append(slots, int32(slot))
	}
	return cuda.CacheLayer{Keys: b.Halves(keys), Values: b.Halves(values), BlockSize: s.blockSize}, slots, keys, values
}

// untouched is a NaN of float16 with an odd payload.
const untouched = 0x7e5a

// at is where a slot's head begins in a cache.
func (s qkvShape) at(slot int32, head int) int {
	block, offset := int(slot)/s.blockSize, int(slot)%s.blockSize
	return ((block*s.kvHeads+head)*s.blockSize + offset) * s.dim
}

func (s qkvShape) store(b *Bench) error {
	layer, slots, keys, values := s.cacheFor(b)
	n := s.rows * s.kvHeads * s.dim
	k, v := b.Normal(n, 5), b.Normal(n, 1e-3)
	b.Do(b.Kernels.Store(b.Stream, layer, b.Floats(k), b.Floats(v), b.Ints(slots), s.rows, cuda.Heads{Q: s.heads, KV: s.kvHeads, Dim: s.dim}))
	for i := range n {
		if slot := slots[i/(s.kvHeads*s.dim)]; slot >= 0 {
			to := s.at(slot, i/s.dim%s.kvHeads) + i%s.dim
			keys[to], values[to] = half.F16FromF32(k[i]), half.F16FromF32(v[i])
		}
	}
	if err := Same(b.ReadHalves(layer.Keys, len(keys)), keys, s.dim); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := Same(b.ReadHalves(layer.Values, len(values)), values, s.dim); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	return nil
}

func (s qkvShape) finish(b *Bench) error {
	layer, slots, keys, values := s.cacheFor(b)
	nq, n := s.rows*s.heads*s.dim, s.rows*s.kvHeads*s.dim
	q, k, v := b.Normal(nq, 2), b.Normal(n, 2), b.Normal(n, 2)
	positions, r, eps := positionsFor(b, s.rows), newRotation(s.dim, 1e6, s.neox), float32(1e-6)
	var qNorm, kNorm []float32
	var qNormAt, kNormAt driver.Ptr
	if s.norm {
		qNorm, kNorm = b.Normal(s.dim, 1), b.Normal(s.dim, 1)
		qNormAt, kNormAt = b.Floats(qNorm), b.Floats(kNorm)
	}
	qAt, kAt, vAt := b.Floats(q), b.Floats(k), b.Floats(v)
	b.Do(b.Kernels.FinishQKV(b.Stream, layer, qAt, kAt, vAt, qNormAt, kNormAt, b.Ints(positions), b.Ints(slots), s.rows,
		cuda.Heads{Q: s.heads, KV: s.kvHeads, Dim: s.dim}, r.onDevice(b), eps))
	wantQ := eachHead(q, s.rows, s.dim, func(row int, head []float32) []float64 { return finishHead(head, qNorm, eps, r, positions[row]) })
	if err := Compare(b.ReadFloats(qAt, nq), wantQ, s.dim, Tolerance{Absolute: 4 * rotated.Absolute, Relative: rotated.Relative}); err != nil {
		return fmt.Errorf("queries: %w", err)
	}
	wantK := eachHead(k, s.rows, s.dim, func(row int, head []float32) []float64 { return finishHead(head, kNorm, eps, r, positions[row]) })
	gotKeys := b.ReadHalves(layer.Keys, len(keys))
	for i, want := range wantK {
		slot := slots[i/(s.kvHeads*s.dim)]
		if slot < 0 {
			continue
		}
		to := s.at(slot, i/s.dim%s.kvHeads) + i%s.dim
		values[to] = half.F16FromF32(v[i])
		// Half a unit of the last place of float16, and of what was rounded.
		got := float64(half.F32FromF16(gotKeys[to]))
		if over := math.Abs(got-want) - math.Abs(want)/2048 - 5e-5; over > 0 || math.IsNaN(over) {
			return fmt.Errorf("keys: value %d of head %d of row %d, slot %d: got %v, want %v", i%s.dim, i/s.dim%s.kvHeads, i/(s.kvHeads*s.dim), slot, got, want)
		}
		gotKeys[to] = untouched
	}
	if err := Same(gotKeys, keys, s.dim); err != nil {
		return fmt.Errorf("keys that belong to no row: %w", err)
	}
	if err := Same(b.ReadHalves(layer.Values, len(values)), values, s.dim); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	if err := Same(b.ReadFloats(kAt, n), k, s.dim); err != nil {
		return fmt.Errorf("the product k: %w", err)
	}
	return nil
}

func headSpeeds() []Speed {
	const heads, kvHeads, dim, blockSize = 32, 8, 128, 16
	var speeds []Speed
	for _, size := range []int{1, 32, 2048} {
		speeds = append(speeds, Speed{"finish_heads", fmt.Sprintf("%d rows, %d/%d heads of %d", size, heads, kvHeads, dim), func(b *Bench, shrink int) Work {
			rows := max(1, size/shrink)
			blocks := (rows + blockSize - 1) / blockSize
			q, k, v := b.Zeros(4*rows*heads*dim), b.Zeros(4*rows*kvHeads*dim), b.Zeros(4*rows*kvHeads*dim)
			layer := cuda.CacheLayer{Keys: b.Zeros(2 * blocks * blockSize * kvHeads * dim), Values: b.Zeros(2 * blocks * blockSize * kvHeads * dim), BlockSize: blockSize}
			order := make([]int32, rows)
			for i := range order {
				order[i] = int32(i)
			}
			places, norm, r := b.Ints(order), b.Zeros(4*dim), newRotation(dim, 10000, true).onDevice(b)
			return Work{Bytes: float64(rows) * dim * (8*heads + 2*(4+2)*kvHeads), Launch: func() error {
				return b.Kernels.FinishQKV(b.Stream, layer, q, k, v, norm, norm, places, places, rows, cuda.Heads{Q: heads, KV: kvHeads, Dim: dim}, r, 1e-6)
			}}
		}})
	}
	return speeds
}
