package main

import "fmt"

// neonHeads is the most query heads that share one reading of a key or value head.
const neonHeads = 4

func neonAttentionFile() *neonFile {
	f := &neonFile{}
	for heads := 1; heads <= neonHeads; heads++ {
		neonScores(f, heads)
		neonAccum(f, heads)
	}
	return f
}

// neonScores multiplies heads queries with n keys: eight sums, of which dimension i
// joins sum i mod 8, added in pairs as sumLanes does.
func neonScores(f *neonFile, heads int) {
	f.begin(fmt.Sprintf("scoresF16NEONH%d", heads), fmt.Sprintf("multiplies %d queries with n keys.", heads),
		"dst *float32, q *float32, k *uint16, ldd int, n int, dim int", "")
	f.arguments("dst", "R0", "q", "R1", "k", "R2", "ldd", "R3", "n", "R4", "dim", "R5")
	f.op("LSL $2, R3, R3")
	f.op("LSL $2, R5, R6") // a query in bytes
	f.label("key")
	query := func(h int) string { return fmt.Sprintf("R%d", 8+h) }
	for h := range heads {
		if h == 0 {
			f.op("MOVD R1, R8")
		} else {
			f.op("ADD R6, %s, %s", query(h-1), query(h))
		}
		f.zero(2 * h)
		f.zero(2*h + 1)
	}
	f.op("LSR $3, R5, R7")
	f.label("lanes")
	f.load128(0, "R2", 16)
	f.op("ADD $16, R2, R2")
	f.fcvtl(17, 16)
	f.fcvtl2(18, 16)
	for h := range heads {
		f.load128(0, query(h), 19)
		f.load128(16, query(h), 20)
		f.op("ADD $32, %s, %s", query(h), query(h))
		f.fmla(2*h, 19, 17)
		f.fmla(2*h+1, 20, 18)
	}
	f.again("R7", "lanes")
	f.op("MOVD R0, R12")
	for h := range heads {
		f.faddp(2*h, 2*h, 2*h+1)
		f.faddp(2*h, 2*h, 2*h)
		f.faddp(2*h, 2*h, 2*h)
		f.op("FMOVS F%d, (R12)", 2*h)
		f.op("ADD R3, R12, R12")
	}
	f.op("ADD $4, R0, R0")
	f.again("R4", "key")
	f.ret()
}

// neonAccum adds n weighted values to heads outputs, eight dimensions at a time.
func neonAccum(f *neonFile, heads int) {
	f.begin(fmt.Sprintf("accumF16NEONH%d", heads), fmt.Sprintf("adds n weighted values to %d outputs.", heads),
		"dst *float32, p *float32, v *uint16, ldp int, n int, dim int", "")
	f.arguments("dst", "R0", "p", "R1", "v", "R2", "ldp", "R3", "n", "R4", "dim", "R5")
	f.op("LSL $2, R3, R3")
	f.op("LSL $2, R5, R6") // an output in bytes
	f.op("LSL $1, R5, R13")
	f.op("LSR $3, R5, R7")
	weight := func(h int) string { return fmt.Sprintf("R%d", 8+h) }
	outputs := func(move func(h int)) {
		f.op("MOVD R0, R12")
		for h := range heads {
			move(h)
			f.op("ADD R6, R12, R12")
		}
	}
	f.label("lanes")
	outputs(func(h int) {
		f.load128(0, "R12", 2*h)
		f.load128(16, "R12", 2*h+1)
		if h == 0 {
			f.op("MOVD R1, R8")
		} else {
			f.op("ADD R3, %s, %s", weight(h-1), weight(h))
		}
	})
	f.op("MOVD R2, R14")
	f.op("MOVD R4, R15")
	f.label("value")
	f.load128(0, "R14", 16)
	f.op("ADD R13, R14, R14")
	f.fcvtl(17, 16)
	f.fcvtl2(18, 16)
	for h := range heads {
		f.load32(0, weight(h), 19)
		f.op("ADD $4, %s, %s", weight(h), weight(h))
		f.fmlaBy(2*h, 17, 19, 0)
		f.fmlaBy(2*h+1, 18, 19, 0)
	}
	f.again("R15", "value")
	outputs(func(h int) {
		f.store128(2*h, 0, "R12")
		f.store128(2*h+1, 16, "R12")
	})
	f.op("ADD $32, R0, R0")
	f.op("ADD $16, R2, R2")
	f.again("R7", "lanes")
	f.ret()
}
