//go:build !amd64 || noasm

package cpu

// Best returns Generic: this build holds no assembly.
func Best() Level { return Generic }
