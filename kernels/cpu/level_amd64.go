//go:build !noasm

package cpu

import (
	"sync"

	"golang.org/x/sys/cpu"
)

// missing tells what this processor or its operating system lacks for the level, or nil.
func (l Level) missing() error {
	x := &cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA && x.HasF16C
	has := false
	switch l {
	case Generic:
		has = true
	case AVX2:
		has = avx2
	case AVXVNNI:
		has = avx2 && x.HasAVXVNNI
	case AVX512VNNI, AMX:
		has = avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512VNNI
	}
	if l == AMX {
		return missingTiles(has && x.HasAMXTile && x.HasAMXInt8, permitTiles)
	}
	if !has {
		return errInstructions
	}
	return nil
}

// missingTiles is missing for AMX, which needs a permission too.
func missingTiles(has bool, permit func() error) error {
	if !has {
		return errInstructions
	}
	return permit()
}

// permitTiles asks the operating system once, for the process.
var permitTiles = sync.OnceValue(requestTiles)
