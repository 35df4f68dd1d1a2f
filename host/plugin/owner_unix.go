//go:build unix

package plugin

import (
	"io/fs"
	"syscall"
)

// modesTell: a file's mode says who may change it.
const modesTell = true

// ownerOf is the user whose file it is.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}
