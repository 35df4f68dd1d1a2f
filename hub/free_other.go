//go:build !(linux || darwin || freebsd)

package hub

// freeBytes knows nothing of file systems here: a full disk ends a pull by
// itself.
func freeBytes(string) (bytes uint64, known bool) { return 0, false }
