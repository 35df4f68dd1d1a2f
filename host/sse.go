package host

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

const (
	// writeTimeout bounds one write to a client. fasthttp sets the deadline once
	// a response, so streams renew it when less than renewBelow is left.
	writeTimeout = 30 * time.Second
	renewBelow   = 20 * time.Second
	// heartbeat is how long a stream may be silent before a comment tells the
	// proxies on the way that it lives.
	heartbeat = 10 * time.Second
)

// events writes an endpoint's stream, as whole SSE events appended to a buffer.
type events interface {
	// open appends what comes before the first output.
	open(dst []byte) []byte
	// output appends one output of the engine.
	output(dst []byte, o *engine.Output) []byte
	// final tells whether the stream ends with a document that plugins shape.
	final() bool
	// close appends the end, with what the plugins add.
	close(dst []byte, shaped plugin.Shaped) []byte
	// fail appends the end of a stream that broke.
	fail(dst []byte, e *openai.Error) []byte
}

// sendStream answers with a run's stream. It waits for the first output, so
// that what fails before it is an HTTP error; a request that queues for long
// begins with a heartbeat instead. The run is closed with the stream.
func (s *Server) sendStream(c *fiber.Ctx, r *run, e events) error {
	timer := time.NewTimer(heartbeat)
	first, err := r.receive(timer.C)
	if err == nil {
		err = r.failure()
	}
	if err != nil && err != engine.ErrTimeout {
		timer.Stop()
		r.close(c.UserContext())
		return err
	}
	r.streaming = true
	b := &streamBody{run: r, events: e, timer: timer, conn: c.Context().Conn()}
	b.buffer = make([]byte, 0, 640) // about two chunks
	if r.chain.Has(plugin.HookChunk) {
		c.Set(rewritten, strings.Join(r.chain.Names(plugin.HookChunk), ", "))
	}
	b.append(e.open)
	b.add(first, err)
	c.Set(fiber.HeaderContentType, "text/event-stream; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Set("X-Accel-Buffering", "no")
	c.Context().SetBodyStream(b, -1)
	return nil
}

// streamBody is the body of a streamed response. fasthttp writes it in the
// connection's goroutine once the handler has returned, and closes it at every
// end: after the last byte, after a failed write, after a panic. It holds
// nothing of fiber's context.
type streamBody struct {
	run    *run
	events events
	conn   net.Conn
	timer  *time.Timer // until the next heartbeat
	// buffer[sent:] is made and not yet written.
	buffer   []byte
	sent     int
	ended    bool
	deadline time.Time
}

// SupportsBodyWriteTo tells fasthttp to use WriteTo, which needs no buffer of
// 4 KB between the events and the connection, as Read does.
func (b *streamBody) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the stream to its end: all that has gathered since the last
// write goes out together.
func (b *streamBody) WriteTo(w io.Writer) (written int64, err error) {
	for {
		if err := b.fill(); err == io.EOF {
			return written, nil
		}
		n, err := w.Write(b.buffer[b.sent:])
		b.sent += n
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
}

// Read is WriteTo for who asks piece by piece.
func (b *streamBody) Read(p []byte) (int, error) {
	if err := b.fill(); err != nil {
		return 0, err
	}
	n := copy(p, b.buffer[b.sent:])
	b.sent += n
	return n, nil
}

// fill waits until there is something to write, and gives the write its time. It
// returns io.EOF at the end.
func (b *streamBody) fill() error {
	for b.sent == len(b.buffer) {
		if b.ended {
			return io.EOF
		}
		b.buffer, b.sent = b.buffer[:0], 0
		b.timer.Reset(heartbeat)
		outputs, err := b.run.receive(b.timer.C)
		b.add(outputs, err)
	}
	if now := time.Now(); b.deadline.Sub(now) < renewBelow {
		b.deadline = now.Add(writeTimeout)
		// An error says that the connection is closed: the write will say so too.
		_ = b.conn.SetWriteDeadline(b.deadline)
	}
	return nil
}

// append adds events, and lets the plugins see each of them.
func (b *streamBody) append(write func(dst []byte) []byte) {
	from := len(b.buffer)
	b.buffer = write(b.buffer)
	if !b.run.chain.Has(plugin.HookChunk) {
		return
	}
	events, err := b.run.chunkHook(context.Background(), b.buffer[from:])
	b.buffer = append(b.buffer[:from], events...)
	if err != nil && !b.ended {
		b.fail(err)
	}
}

// add turns what receive has brought into events.
func (b *streamBody) add(outputs []engine.Output, err error) {
	switch {
	case err == engine.ErrTimeout:
		b.buffer = append(b.buffer, ": keep-alive\n\n"...)
		return
	case err == io.EOF:
		b.end()
		return
	}
	for i := range outputs {
		if f := outputs[i].Finish; f == engine.Failed || f == engine.Abort {
			b.fail(b.run.failure())
			return
		}
		b.append(func(dst []byte) []byte { return b.events.output(dst, &outputs[i]) })
		if b.ended {
			return
		}
	}
}

// end writes the last document, with what the plugins add. The account is closed
// before it leaves.
func (b *streamBody) end() {
	shaped := plugin.Shaped{}
	if b.events.final() {
		var err error
		if shaped, err = b.run.shape(context.Background(), nil); err != nil {
			b.fail(err)
			return
		}
	}
	b.ended = true
	last := len(b.buffer)
	b.append(func(dst []byte) []byte { return b.events.close(dst, shaped) })
	if b.run.end == plugin.OutcomePluginError {
		b.buffer = b.buffer[:last] // the end was refused
		b.fail(errors.New("a plugin refused the end of the stream"))
		return
	}
	b.run.settle(context.Background())
}

// fail ends the stream with an error event, if somebody is left to read it.
func (b *streamBody) fail(err error) {
	b.ended = true
	b.run.drain()
	b.run.settle(context.Background())
	if errors.Is(err, errGone) {
		return
	}
	s := b.run.server
	s.parts.Logger.Error("stream broken", "error", err, "request_id", b.run.requestID)
	b.buffer = b.events.fail(b.buffer, s.apiError(err, nil))
}

// Close ends the run; the connection may serve another request afterwards.
func (b *streamBody) Close() error {
	b.timer.Stop()
	b.run.close(context.Background())
	return nil
}

func stack() string { return string(debug.Stack()) }
