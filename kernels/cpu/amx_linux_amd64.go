//go:build !noasm

package cpu

import (
	"fmt"
	"syscall"
)

// requestTiles asks Linux to let this process use the data of tiles (Documentation/arch/x86/xstate.rst;
// numbers of asm/prctl.h and asm/fpu/types.h). From then on the frame of a signal holds the tiles of a
// thread that uses them, 11 KiB in all; Go handles signals on stacks of 32 KiB.
func requestTiles() error {
	const archRequestPermission, tileData = 0x1023, 18
	if _, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archRequestPermission, tileData, 0); errno != 0 {
		return fmt.Errorf("the system does not permit tiles: %w", errno)
	}
	return nil
}
