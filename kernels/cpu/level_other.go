//go:build (!amd64 && !arm64) || noasm

package cpu

// missing tells what the level lacks: this build holds no assembly.
func (l Level) missing() error {
	if l != Generic {
		return errInstructions
	}
	return nil
}
