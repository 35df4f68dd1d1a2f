package cpu

import "encoding/binary"

// headLanes is the number of partial sums of a score; dimension i joins sum i mod
// headLanes. Head dimensions are multiples of it.
const headLanes = 8

// ScoresF16 computes dst[h·ldd + j] = q[h]·k[j] for query heads that share one key
// head. q is [heads, dim]; k is [n, dim] halves, a run of positions that lie
// together. dim is a multiple of 8. The bits of a score depend on its two rows
// alone.
func (o *Ops) ScoresF16(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	checkAttention(heads, n, dim, headLanes, ldd)
	if heads == 0 || n == 0 {
		return
	}
	o.scoresF16(dst[:(heads-1)*ldd+n:len(dst)], ldd, q[:heads*dim:len(q)], k[:n*dim:len(k)], heads, n, dim)
}

// ScoresQ8 is ScoresF16 for keys as QuantizeHead makes them, [n, Q8HeadBytes(dim)].
// dim is a multiple of 32.
func (o *Ops) ScoresQ8(dst []float32, ldd int, q []float32, k []byte, heads, n, dim int) {
	checkAttention(heads, n, dim, BlockColumns, ldd)
	if heads == 0 || n == 0 {
		return
	}
	o.scoresQ8(dst[:(heads-1)*ldd+n:len(dst)], ldd, q[:heads*dim:len(q)], k[:n*Q8HeadBytes(dim):len(k)], heads, n, dim)
}

// AccumF16 computes dst[h] += Σ p[h·ldp + j]·v[j] for query heads that share one value
// head. dst is [heads, dim]; v is [n, dim] halves. dim is a multiple of 8.
// Positions join one by one in their order, so a run may be cut anywhere.
func (o *Ops) AccumF16(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	checkAttention(heads, n, dim, headLanes, ldp)
	if heads == 0 || n == 0 {
		return
	}
	o.accumF16(dst[:heads*dim:len(dst)], p[:(heads-1)*ldp+n:len(p)], ldp, v[:n*dim:len(v)], heads, n, dim)
}

// AccumQ8 is AccumF16 for values as QuantizeHead makes them. dim is a multiple of 32.
func (o *Ops) AccumQ8(dst []float32, p []float32, ldp int, v []byte, heads, n, dim int) {
	checkAttention(heads, n, dim, BlockColumns, ldp)
	if heads == 0 || n == 0 {
		return
	}
	o.accumQ8(dst[:heads*dim:len(dst)], p[:(heads-1)*ldp+n:len(p)], ldp, v[:n*Q8HeadBytes(dim):len(v)], heads, n, dim)
}

func checkAttention(heads, n, dim, multiple, ld int) {
	if heads < 0 || n < 0 || dim <= 0 || dim%multiple != 0 || ld < n {
		panic("cpu: attention of impossible shape")
	}
}

// Q8HeadBytes is the size of a quantised key or value of one head.
func Q8HeadBytes(dim int) int { return dim + dim/BlockColumns*2 }

// QuantizeHead writes one head's key or value to dst: dim int8, then an f16 scale for
// each 32 of them. q and meta are what Quantize made of it.
func QuantizeHead(dst []byte, q []int8, meta []Meta) {
	codes, scales := dst[:len(q)], dst[len(q):Q8HeadBytes(len(q))]
	for i, v := range q {
		codes[i] = byte(v)
	}
	for i := range len(q) / BlockColumns {
		binary.LittleEndian.PutUint16(scales[2*i:], F16FromF32(meta[i].D))
	}
}

// lanes holds eight neighbouring values of a key or value.
type lanes [headLanes]float32

func (l *lanes) loadF16(row []uint16) { f16ToF32Generic(l[:], row[:headLanes]) }

// loadQ8 loads values i … i+7 of a quantised row, without their scale, which it
// returns.
func (l *lanes) loadQ8(row []byte, i, dim int) float32 {
	for lane, code := range row[i:][:headLanes] {
		l[lane] = float32(int8(code))
	}
	return F32FromF16(binary.LittleEndian.Uint16(row[dim+i/BlockColumns*2:]))
}

func scoresF16Generic(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	var key lanes
	for j := range n {
		for h := range heads {
			var sum [headLanes]float32
			for i := 0; i < dim; i += headLanes {
				key.loadF16(k[j*dim+i:])
				for lane, x := range key {
					sum[lane] = fma32(q[h*dim+i+lane], x, sum[lane])
				}
			}
			dst[h*ldd+j] = sumLanes(sum)
		}
	}
}

// scoresQ8Generic is scoresF16Generic of keys code·scale, which is exact in f32.
func scoresQ8Generic(dst []float32, ldd int, q []float32, k []byte, heads, n, dim int) {
	var key lanes
	for j := range n {
		for h := range heads {
			var sum [headLanes]float32
			for i := 0; i < dim; i += headLanes {
				scale := key.loadQ8(k[j*Q8HeadBytes(dim):], i, dim)
				for lane, x := range key {
					sum[lane] = fma32(q[h*dim+i+lane], x*scale, sum[lane])
				}
			}
			dst[h*ldd+j] = sumLanes(sum)
		}
	}
}

func accumF16Generic(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	var value lanes
	for j := range n {
		for i := 0; i < dim; i += headLanes {
			value.loadF16(v[j*dim+i:])
			for h := range heads {
				weight, acc := p[h*ldp+j], dst[h*dim+i:][:headLanes]
				for lane, x := range value {
					acc[lane] = fma32(weight, x, acc[lane])
				}
			}
		}
	}
}

// accumQ8Generic multiplies the weights by the scale of the values.
func accumQ8Generic(dst []float32, p []float32, ldp int, v []byte, heads, n, dim int) {
	var value lanes
	for j := range n {
		for i := 0; i < dim; i += headLanes {
			scale := value.loadQ8(v[j*Q8HeadBytes(dim):], i, dim)
			for h := range heads {
				weight, acc := p[h*ldp+j]*scale, dst[h*dim+i:][:headLanes]
				for lane, x := range value {
					acc[lane] = fma32(weight, x, acc[lane])
				}
			}
		}
	}
}
