package cpu

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

// AccumQ8 is AccumF16 for values of 8 bits: v is [n, dim], and scales holds a half for
// each 32 values of a row, [dim/32, lds]. A weight is p·scale, rounded. dim is a multiple
// of 32. The scores of such keys are a MatMul: 16 of them are a group of FormQ8_0.
//
// next is what the caller reads afterwards, if it knows. It is fetched on the way, as many
// bytes as there are values.
func (o *Ops) AccumQ8(dst []float32, p []float32, ldp int, v []int8, scales []uint16, lds, heads, n, dim int, next []byte) {
	checkAttention(heads, n, dim, BlockColumns, min(ldp, lds))
	if heads == 0 || n == 0 {
		return
	}
	o.accumQ8(dst[:heads*dim:len(dst)], p[:(heads-1)*ldp+n:len(p)], ldp, v[:n*dim:len(v)], scales[:(dim/BlockColumns-1)*lds+n:len(scales)], lds, heads, n, dim, next)
}

func checkAttention(heads, n, dim, multiple, ld int) {
	if heads < 0 || n < 0 || dim <= 0 || dim%multiple != 0 || ld < n {
		panic("cpu: attention of impossible shape")
	}
}

// lanes holds eight neighbouring values of a key or value.
type lanes [headLanes]float32

func (l *lanes) loadF16(row []uint16) { f16ToF32Generic(l[:], row[:headLanes]) }

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

func accumQ8Generic(dst []float32, p []float32, ldp int, v []int8, scales []uint16, lds, heads, n, dim int, _ []byte) {
	for j := range n {
		for block := range dim / BlockColumns {
			scale := F32FromF16(scales[block*lds+j])
			codes := v[j*dim+block*BlockColumns:][:BlockColumns]
			for h := range heads {
				weight, acc := p[h*ldp+j]*scale, dst[h*dim+block*BlockColumns:][:BlockColumns]
				for i, code := range codes {
					acc[i] = fma32(weight, float32(code), acc[i])
				}
			}
		}
	}
}
