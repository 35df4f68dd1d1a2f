package plugin

import "golang.org/x/sys/unix"

// limitProcess bounds what this process may still use. The limit is on the
// memory that it can write to: a Go program reserves more addresses at its
// start than it ever uses, so that a limit on those would say little.
func limitProcess(cpuSeconds, memory uint64) error {
	// With the hard limit at the soft one the kernel ends the process at
	// once; the signal of the soft one is nothing to a Go program.
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: cpuSeconds, Max: cpuSeconds}); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory})
}
