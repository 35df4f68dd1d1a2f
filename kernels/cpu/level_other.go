//go:build (!amd64 && !arm64) || noasm

package cpu

// supported tells whether the level can run: this build holds no assembly.
func (l Level) supported() bool { return l == Generic }
