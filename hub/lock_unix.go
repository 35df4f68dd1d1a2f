//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// acquire locks a file as the Python library filelock does, by flock, so that
// huggingface_hub and this program keep out of each other's way. busy is called
// once if someone else holds it.
func (c *Client) acquire(ctx context.Context, path string, busy func()) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	// The mode is that of huggingface_hub: users of a shared cache wait too.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, err
	}
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // closing gives the lock back
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
			return func() { _ = f.Close() }, nil // a file system without locks
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			busy()
		}
		if err := c.pause(ctx, 300*time.Millisecond); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}
