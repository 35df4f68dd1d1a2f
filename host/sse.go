package host

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/openai"
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
	// close appends the end; members are the plugins'.
	close(dst, members []byte) []byte
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
		r.close()
		return err
	}
	b := &streamBody{run: r, events: e, timer: timer, conn: c.Context().Conn()}
	b.buffer = e.open(make([]byte, 0, 1024)) // about three chunks
	b.add(first, err)
	c.Set(fiber.HeaderContentType, "text/event-stream; charset=utf-8")
	c.Set(fiber.HeaderCacheControl, "no-cache")
	c.Set("X-Accel-Buffering", "no")
	c.Context().SetBodyStream(b, -1)
	return nil
}

// streamBody is the body of a streamed response. fasthttp reads it in the
// connection's goroutine once the handler has returned, and closes it at every
// end: after the last byte, after a failed write, after a panic. It holds
// nothing of fiber's context.
type streamBody struct {
	run    *run
	events events
	conn   net.Conn
	timer  *time.Timer // until the next heartbeat
	// buffer[sent:] is written and not yet read.
	buffer   []byte
	sent     int
	ended    bool
	deadline time.Time
}

// Read waits for outputs and returns them as events. All that has gathered
// since the last Read goes out together.
func (b *streamBody) Read(p []byte) (int, error) {
	for b.sent == len(b.buffer) {
		if b.ended {
			return 0, io.EOF
		}
		b.buffer, b.sent = b.buffer[:0], 0
		b.timer.Reset(heartbeat)
		outputs, err := b.run.receive(b.timer.C)
		b.add(outputs, err)
	}
	n := copy(p, b.buffer[b.sent:])
	b.sent += n
	if now := time.Now(); b.deadline.Sub(now) < renewBelow {
		b.deadline = now.Add(writeTimeout)
		// An error says that the connection is closed: the write will say so too.
		_ = b.conn.SetWriteDeadline(b.deadline)
	}
	return n, nil
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
			b.run.stream.Abort() // the others end with it
			b.fail(b.run.failure())
			return
		}
		b.buffer = b.events.output(b.buffer, &outputs[i])
	}
}

// end writes the last document, with the plugins' members.
func (b *streamBody) end() {
	b.ended = true
	var members []byte
	if b.events.final() {
		var err error
		if members, err = b.run.shape(context.Background(), true); err != nil {
			b.fail(err)
			return
		}
	}
	b.buffer = b.events.close(b.buffer, members)
}

func (b *streamBody) fail(err error) {
	b.ended = true
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
	b.run.close()
	return nil
}

func stack() string { return string(debug.Stack()) }
