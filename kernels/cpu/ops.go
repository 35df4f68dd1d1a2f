package cpu

// Ops holds the kernels of one level. It has no other state: it may be shared
// and used by many goroutines at once.
//
// Its methods check shapes and lengths, which callers derive from a model they
// have already checked, and panic if they are wrong.
type Ops struct {
	level Level

	tile                  int // most tokens of one call of matMul, or 0 if it takes all
	arranged              int // the least number of tokens that matMul arranges, or 0
	matMul                [numForms]matMulFunc
	halfTile              int // alike, of matMulF16 and matMulBF16
	matMulF16, matMulBF16 matMulHalfFunc

	quantize func(q []int8, meta []Meta, x []float32)
	f16ToF32 func(dst []float32, src []uint16)
	f32ToF16 func(dst []uint16, src []float32)

	dot    func(x, y []float32) float32
	max    func(x []float32) float32
	index  func(x []float32, v float32) int
	finite func(x []float32) bool
	expSum func(dst, x []float32, max float32) float32
	above  func(x []float32, floor float32) int
	// sumWeights wants a finite peak.
	sumWeights func(x []float32, peak float32, scale float64) uint64

	add      func(dst, x []float32)
	scale    func(dst []float32, s float32)
	scaleMul func(dst, x, w []float32, s float32)
	siluMul  func(dst, gate, up []float32)
	geluMul  func(dst, gate, up []float32)

	scoresF16 func(dst []float32, ldd int, q []float32, k []uint16, heads, n, dim int)
	accumF16  func(dst []float32, p []float32, ldp int, v []uint16, heads, n, dim int)
	accumQ8   func(dst []float32, p []float32, ldp int, v []int8, scales []uint16, lds, heads, n, dim int, next []byte)

	ropePairs, ropeHalves func(x, cos, sin []float32)

	pause func(n int)

	read            func(b []byte)
	peak, peakFloat func(turns int) int
}

// Select returns the kernels of a level, or an error if this machine lacks it.
func Select(level Level) (*Ops, error) {
	if err := level.available(); err != nil {
		return nil, err
	}
	o := generic()
	o.accelerate(level)
	return o, nil
}

// Level returns the level the kernels belong to.
func (o *Ops) Level() Level { return o.level }

// Pause spends about n spin-wait hints, some tens of cycles each, in which another
// thread of the core may run.
func (o *Ops) Pause(n int) { o.pause(n) }

func generic() *Ops {
	o := &Ops{
		level:      Generic,
		tile:       tileTokens,
		halfTile:   tileTokens,
		matMulF16:  matMulHalfGeneric(F32FromF16),
		matMulBF16: matMulHalfGeneric(f32FromBF16),
		quantize:   quantizeGeneric,
		f16ToF32:   f16ToF32Generic,
		f32ToF16:   f32ToF16Generic,
		dot:        dotGeneric,
		max:        maxGeneric,
		index:      indexGeneric,
		finite:     finiteGeneric,
		expSum:     expSumGeneric,
		above:      aboveGeneric,
		sumWeights: sumWeightsGeneric,
		add:        addGeneric,
		scale:      scaleGeneric,
		scaleMul:   scaleMulGeneric,
		siluMul:    siluMulGeneric,
		geluMul:    geluMulGeneric,
		scoresF16:  scoresF16Generic,
		accumF16:   accumF16Generic,
		accumQ8:    accumQ8Generic,
		ropePairs:  ropePairsGeneric,
		ropeHalves: ropeHalvesGeneric,
		pause:      pauseGeneric,
		read:       readGeneric,
		peak:       peakGeneric,
		peakFloat:  peakFloatGeneric,
	}
	for form := range numForms {
		o.matMul[form] = matMulGeneric(form)
	}
	return o
}

func pauseGeneric(n int) {
	for range n {
	}
}
