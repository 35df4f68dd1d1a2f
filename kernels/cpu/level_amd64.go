//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// supported tells whether this processor and its operating system have the level.
func (l Level) supported() bool {
	x := &cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA && x.HasF16C
	switch l {
	case Generic:
		return true
	case AVX2:
		return avx2
	case AVXVNNI:
		return avx2 && x.HasAVXVNNI
	case AVX512VNNI:
		return avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI
	}
	return false
}
