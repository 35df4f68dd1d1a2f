//go:build linux || darwin || freebsd

package hub

import "golang.org/x/sys/unix"

// freeBytes is the room on a folder's file system for a user without
// privileges.
func freeBytes(folder string) (bytes uint64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true
}
