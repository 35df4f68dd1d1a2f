//go:build !noasm

package cpu

func sumWeightsVectors(x []float32, peak float32, scale float64) uint64 {
	n := len(x) &^ 15
	sum := sumWeightsGeneric(x[n:], peak, scale)
	if n > 0 {
		sum += uint64(sumWeightsAVX2(&x[0], n/16, float64(peak), scale))
	}
	return sum
}

func aboveVectors(x []float32, floor float32) int {
	if len(x) == 0 {
		return -1
	}
	return aboveAVX2(&x[0], len(x), floor)
}
