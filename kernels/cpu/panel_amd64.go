//go:build !noasm

package cpu

import "unsafe"

// lineFloats is the number of f32 of a cache line.
const lineFloats = 16

// lined cuts the floats before the first cache line, at most a line: a load of a whole
// vector that crosses lines takes twice as long.
func lined(x []float32) []float32 {
	return x[-uintptr(unsafe.Pointer(&x[0]))/4%lineFloats:]
}

const (
	// panelKeys is the number of keys of a panel.
	panelKeys = 32
	// panelHeads is the least number of queries that share a panel: what spreading its keys
	// costs, about eight more queries do.
	panelHeads = 8
	// panelDim bounds the dimensions of a panel, which is on the stack.
	panelDim = 256
)

// scoresPanels is scores of many queries by panels of float16 keys; few queries, and keys
// that fill no panel, are left to another.
func scoresPanels(other scoresFunc) scoresFunc {
	return func(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
		whole := n &^ (panelKeys - 1)
		switch {
		case heads < panelHeads || dim > panelDim || whole == 0:
			whole = 0
		case dim <= panelDim/2: // a smaller one to clear
			var panel [panelDim/2*panelKeys + lineFloats]float32
			panels(lined(panel[:]), dst, ldd, q, k, heads, whole, dim)
		default:
			var panel [panelDim*panelKeys + lineFloats]float32
			panels(lined(panel[:]), dst, ldd, q, k, heads, whole, dim)
		}
		if whole < n {
			other(dst[whole:], ldd, q, k[whole*dim:], heads, n-whole, dim)
		}
	}
}

// panels computes the scores of n keys, a multiple of panelKeys.
func panels(panel, dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int) {
	for j := 0; j < n; j += panelKeys {
		spreadF16AVX512(&panel[0], &k[j*dim], dim)
		panelScoresAVX512(&dst[j], &q[0], &panel[0], ldd, heads/2, dim)
		if heads%2 == 1 { // the last, beside the one before it again
			panelScoresAVX512(&dst[(heads-2)*ldd+j], &q[(heads-2)*dim], &panel[0], ldd, 1, dim)
		}
	}
}
