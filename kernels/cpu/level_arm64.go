//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// missing tells what this processor or its operating system lacks for the level, or nil.
func (l Level) missing() error {
	switch {
	case l == Generic, l == NEON && cpu.ARM64.HasASIMD && cpu.ARM64.HasASIMDDP:
		return nil
	}
	return errInstructions
}
