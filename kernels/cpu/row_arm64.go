//go:build !noasm

package cpu

// The functions below give whole vectors to the assembly, and the rest to the
// twins' steps.

func quantizeWithNEON(q []int8, meta []Meta, x []float32) {
	if len(meta) > 0 {
		quantizeNEON(&q[0], &meta[0], &x[0], len(meta))
	}
}

func dotWithNEON(x, y []float32) float32 {
	var sum [dotLanes]float32
	runs := len(x) / dotLanes
	if runs > 0 {
		dotNEON(&sum[0], &x[0], &y[0], runs)
	}
	if n := runs * dotLanes; n < len(x) {
		x, y = x[n:], y[n:]
		for i := range sum {
			// Lanes beyond the end take 0·0, which makes a zero positive.
			var a, b float32
			if i < len(x) {
				a, b = x[i], y[i]
			}
			sum[i] = fma32(a, b, sum[i])
		}
	}
	var s [8]float32
	for i := range s {
		s[i] = float32(sum[i]+sum[8+i]) + float32(sum[16+i]+sum[24+i])
	}
	return sumLanes(s)
}

func expSumWithNEON(dst, x []float32, max float32) float32 {
	var sum [expLanes]float32
	n := len(x) / expLanes * expLanes
	if n > 0 {
		expSumNEON(&sum[0], &dst[0], &x[0], n/expLanes, max)
	}
	for i, v := range x[n:] {
		e := exp32(v - max)
		dst[n+i] = e
		sum[i] += e
	}
	return sumLanes(sum)
}

func siluMulWithNEON(dst, gate, up []float32) {
	n := len(gate) &^ 3
	if n > 0 {
		siluMulNEON(&dst[0], &gate[0], &up[0], n/4)
	}
	siluMulGeneric(dst[n:], gate[n:], up[n:])
}

func geluMulWithNEON(dst, gate, up []float32) {
	n := len(gate) &^ 3
	if n > 0 {
		geluMulNEON(&dst[0], &gate[0], &up[0], n/4)
	}
	geluMulGeneric(dst[n:], gate[n:], up[n:])
}
