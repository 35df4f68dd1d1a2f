//go:build !linux && !noasm

package cpu

import "errors"

// requestTiles says that nobody has tried tiles on this system.
func requestTiles() error { return errors.New("tiles are used on Linux only") }
