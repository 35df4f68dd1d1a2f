//go:build !linux

package cpu

import "time"

// threadTime knows nothing here.
func threadTime() (thread int, used time.Duration) { return 0, 0 }
