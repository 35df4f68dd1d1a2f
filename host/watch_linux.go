package host

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher tells when clients leave. Fiber and fasthttp do not: they read the
// connection again only after the response. One epoll set holds every connection
// that had a request in flight, until it is closed, and fires when the peer closes
// its sending side, also where unread bytes are pending. A client that half-closes
// before it has read the response counts as gone, as with net/http.
//
// The event carries a token of ours and not the file descriptor, which the
// kernel uses again; a token that is not known any more is ignored.
type watcher struct {
	epoll int
	// quit is an eventfd that ends the loop.
	quit int
	done chan struct{}

	// mu guards what follows, and what is in each watch.
	mu      sync.Mutex
	last    uint64 // token
	byConn  map[net.Conn]*watch
	byToken map[uint64]*watch
}

// watch is one connection being watched.
type watch struct {
	watcher *watcher
	token   uint64
	gone    func() // of the request in flight; nil between requests
	left    bool   // the event has come
}

func newWatcher() (*watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll set: %w", err)
	}
	quit, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	w := &watcher{epoll: epoll, quit: quit, done: make(chan struct{}), byConn: make(map[net.Conn]*watch), byToken: make(map[uint64]*watch)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, quit, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		unix.Close(epoll)
		unix.Close(quit)
		return nil, fmt.Errorf("watch an eventfd: %w", err)
	}
	go w.loop()
	return w, nil
}

// add calls gone, at most once and not from add's goroutine unless the client has
// left already, when the client leaves before stop. gone must not block. A
// connection that has no file descriptor is not watched; stop is right for it all
// the same.
func (w *watcher) add(c net.Conn, gone func()) *watch {
	w.mu.Lock()
	t := w.byConn[c]
	known := t != nil
	if !known {
		w.last++
		t = &watch{watcher: w, token: w.last}
		w.byConn[c], w.byToken[t.token] = t, t
	}
	t.gone = gone
	left := t.left
	w.mu.Unlock()
	if known && left {
		gone()
		return nil
	}
	if known {
		return t
	}
	conn, ok := rawConn(c)
	if !ok {
		w.forget(c)
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		event := unix.EpollEvent{
			Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT,
			Fd:     int32(uint32(t.token)),
			Pad:    int32(uint32(t.token >> 32)),
		}
		failed = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd), &event)
	})
	if err != nil || failed != nil {
		// The connection is closed already: that is the client leaving.
		w.forget(c)
		gone()
		return nil
	}
	return t
}

// stop ends the watch of a request; gone is not called afterwards, but may be
// running.
func (t *watch) stop() {
	if t == nil {
		return
	}
	t.watcher.mu.Lock()
	t.gone = nil
	t.watcher.mu.Unlock()
}

// forget takes a connection out that is closed; the kernel has done so already.
func (w *watcher) forget(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.byConn[c]; t != nil {
		delete(w.byConn, c)
		delete(w.byToken, t.token)
	}
}

func (w *watcher) loop() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		for _, event := range events[:n] {
			token := uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32
			if token == 0 {
				return // the eventfd: tokens begin at 1
			}
			w.mu.Lock()
			var gone func()
			if t := w.byToken[token]; t != nil {
				gone, t.gone, t.left = t.gone, nil, true
			}
			w.mu.Unlock()
			if gone != nil {
				gone()
			}
		}
	}
}

// close ends the loop and waits for it.
func (w *watcher) close() {
	one := [8]byte{1}
	_, _ = unix.Write(w.quit, one[:]) // fails only if the loop has been told already
	<-w.done
	unix.Close(w.epoll)
	unix.Close(w.quit)
}

// rawConn finds the file descriptor under wrappers such as tls.Conn.
func rawConn(c net.Conn) (syscall.RawConn, bool) {
	for range 4 {
		if s, ok := c.(syscall.Conn); ok {
			raw, err := s.SyscallConn()
			return raw, err == nil
		}
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil, false
		}
		c = inner.NetConn()
	}
	return nil, false
}
