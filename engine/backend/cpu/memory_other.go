//go:build !linux

package cpu

// mapMemory takes heap memory, whose large objects begin at a page.
func mapMemory(n int) ([]byte, error) { return make([]byte, n), nil }

func unmapMemory([]byte) error { return nil }
