//go:build !linux

package host

import "net"

// watcher does nothing where there is no epoll: clients that leave are noticed
// by the next write to them.
type watcher struct{}

type watch struct{}

func newWatcher() (*watcher, error) { return &watcher{}, nil }

func (w *watcher) add(net.Conn, func()) *watch { return nil }

func (t *watch) stop() {}

func (w *watcher) forget(net.Conn) {}

func (w *watcher) close() {}
