//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package hub

import "context"

// acquire locks nothing here: two pulls of the same file at once may then both
// fail by its hash, and neither leaves a wrong file.
func (c *Client) acquire(context.Context, string, func()) (release func(), err error) {
	return func() {}, nil
}
