package cpu

// headLanes is the number of partial sums of a score; dimension i joins sum i mod
// headLanes. Head dimensions are multiples of it.
const headLanes = 8

// ScoresF16 computes dst[h·ldd + j] = q[h]·k[j] for query heads that share one key
// head. q is [heads, dim]; k is [n, dim] halves, a run of positions that lie
// together. dim is a multiple of 8. The bits of a score depend on its two rows
// alone.
func (o *Ops) ScoresF16(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	if heads < 0 || n < 0 || dim <= 0 || dim%headLanes != 0 || ldd < n {
		panic("cpu: scores of impossible shape")
	}
	if heads == 0 || n == 0 {
		return
	}
	o.scores(dst[:(heads-1)*ldd+n:len(dst)], ldd, q[:heads*dim:len(q)], k[:n*dim:len(k)], heads, n, dim)
}

func scoresGeneric(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	var buffer [256]float32 // the largest head in use; a larger one allocates
	widened := buffer[:min(dim, len(buffer))]
	if dim > len(buffer) {
		widened = make([]float32, dim)
	}
	for j := range n {
		f16ToF32Generic(widened, k[j*dim:][:dim])
		for h := range heads {
			query := q[h*dim:][:dim]
			var sum [headLanes]float32
			for i, x := range widened {
				sum[i%headLanes] = fma32(query[i], x, sum[i%headLanes])
			}
			dst[h*ldd+j] = sumLanes(sum)
		}
	}
}

// AccumF16 computes dst[h] += Σ p[h·ldp + j]·v[j] for query heads that share one value
// head. dst is [heads, dim]; v is [n, dim] halves. dim is a multiple of 8.
// Positions join one by one in their order, so a run may be cut anywhere.
func (o *Ops) AccumF16(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	if heads < 0 || n < 0 || dim <= 0 || dim%headLanes != 0 || ldp < n {
		panic("cpu: accumulation of impossible shape")
	}
	if heads == 0 || n == 0 {
		return
	}
	o.accum(dst[:heads*dim:len(dst)], p[:(heads-1)*ldp+n:len(p)], ldp, v[:n*dim:len(v)], heads, n, dim)
}

func accumGeneric(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int) {
	var widened [headLanes]float32
	for j := range n {
		for i := 0; i < dim; i += headLanes {
			f16ToF32Generic(widened[:], v[j*dim+i:][:headLanes])
			for h := range heads {
				weight, acc := p[h*ldp+j], dst[h*dim+i:][:headLanes]
				for lane, x := range widened {
					acc[lane] = fma32(weight, x, acc[lane])
				}
			}
		}
	}
}
