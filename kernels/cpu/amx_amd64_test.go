//go:build !noasm

package cpu

import (
	"errors"
	"syscall"
	"testing"
)

// TestMissingTiles asks for permission only where the instructions are, and passes on a refusal.
func TestMissingTiles(t *testing.T) {
	for _, c := range []struct {
		name    string
		has     bool
		refusal error
		want    error
	}{
		{"no instructions", false, nil, errInstructions},
		{"no instructions, refused", false, syscall.EINVAL, errInstructions},
		{"refused", true, syscall.EPERM, syscall.EPERM},
		{"permitted", true, nil, nil},
	} {
		asked := false
		got := missingTiles(c.has, func() error {
			asked = true
			return c.refusal
		})
		if !errors.Is(got, c.want) || asked != c.has {
			t.Errorf("%s: got %v, asked %v; want %v", c.name, got, asked, c.want)
		}
	}
}
