//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// supported tells whether this processor and its operating system have the level.
func (l Level) supported() bool {
	switch l {
	case Generic:
		return true
	case NEON:
		return cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP
	}
	return false
}
