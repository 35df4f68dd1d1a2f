//go:build (!amd64 && !arm64) || noasm

package cpu

// accelerate has nothing to add: only Generic is available in this build.
func (o *Ops) accelerate(Level) {}
