//go:build cuda && cgo && linux

package suite

import (
	"slices"
	"time"
)

// Case checks one kernel on one kind of input.
type Case struct {
	Kernel string // its name in the .cu files
	Name   string // of the input
	// Run returns what is wrong.
	Run func(*Bench) error
}

// Cases lists the cases of all kernels.
func Cases() []Case {
	return slices.Concat(normCases(), headCases(), elementCases(), decodeCases(), productCases(), prefillCases(), embedCases(), matMulCases(), sampleCases())
}

// Speed is one kernel at a size at which its speed matters.
type Speed struct {
	Kernel string
	Name   string // the size, for people
	// Prepare makes the inputs, and returns what is to be timed. All counts of rows
	// and positions are divided by shrink, which is 1 on a device that is fast.
	Prepare func(b *Bench, shrink int) Work
}

// Work is what a launch must do at least.
type Work struct {
	Bytes  float64 // read and written, each once
	FLOPs  float64 // a multiplication and an addition are two
	Launch func() error
}

// Measurement is a Speed's result.
type Measurement struct {
	Kernel, Name string
	Time         time.Duration // of one launch
	Bytes, FLOPs float64       // as in Work
}

// BytesPerSecond is the memory's achieved speed.
func (m Measurement) BytesPerSecond() float64 { return m.Bytes / m.Time.Seconds() }

// FLOPS is the achieved number of operations a second.
func (m Measurement) FLOPS() float64 { return m.FLOPs / m.Time.Seconds() }

// Speeds lists what is timed.
func Speeds() []Speed {
	return slices.Concat(normSpeeds(), headSpeeds(), elementSpeeds(), decodeSpeeds(), productSpeeds(), prefillSpeeds(), embedSpeeds(), matMulSpeeds(), sampleSpeeds())
}
