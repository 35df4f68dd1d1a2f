//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// Best returns the highest level that this processor and its operating system
// support.
func Best() Level {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return Generic
	}
	if !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512VL || !x.HasAVX512VNNI {
		return AVX2
	}
	return AVX512VNNI
}
