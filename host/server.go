package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/valyala/fasthttp"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/chat"
	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/ledger"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// Parts are what a server is made of. The caller keeps them and closes them
// after the server has ended.
type Parts struct {
	Engine *engine.Engine
	// Template turns messages into a prompt. It is nil where the model file has
	// none: then chat requests are refused, and NoTemplate says why.
	Template   *chat.Template
	NoTemplate error
	// Plugins are asked about requests and answers; nil for none.
	Plugins *plugin.Current
	// KV takes what plugins wrote in their finish hook; nil where none may.
	KV plugin.KV
	// Ledger keeps a record of each request; nil for none.
	Ledger ledger.Recorder
	// Keys says who may ask; nil or empty for everyone. SetKeys replaces it.
	Keys *keys.Ring
	// Models are the names under which the model is served, the first one is
	// used in responses to requests that name it.
	Models []string
	// Observe takes what the server counts.
	Observe Observer
	// Version is the program's own.
	Version string
	Logger  *slog.Logger
}

// Observer takes what the server counts. Its functions must not block; a nil one
// is not called.
type Observer struct {
	// Scrape writes the metrics in a form that accept allows, and names its
	// content type. Without it there is no /metrics.
	Scrape func(w io.Writer, accept string) (contentType string, err error)
	// Rejected is told of a request that the full queue refused.
	Rejected func(*engine.QueueFullError)
	// Answered is told of each answer when its headers are ready: the route's
	// pattern, empty where none matched, method, status and the time until then.
	Answered func(route, method string, status int, d time.Duration)
}

// Server is the HTTP side: routes, limits, and the end of it all.
type Server struct {
	options Options
	parts   Parts
	app     *fiber.App
	watcher *watcher
	// started is when the server was made, as the models' creation time.
	started time.Time
	// fingerprint names version and model, for `system_fingerprint`.
	fingerprint string
	forceUsage  openai.ForceUsage
	draining    atomic.Bool
	// ring is who may ask.
	ring atomic.Pointer[keys.Ring]

	// mu guards runs.
	mu   sync.Mutex
	runs map[*run]struct{}
	// ended is told, without blocking, when a run ends.
	ended chan struct{}
}

// New makes a server; Serve starts it.
func New(o Options, p Parts) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := o.Server.Open(p.Keys.Len()); err != nil {
		return nil, err
	}
	if len(p.Models) == 0 {
		return nil, errors.New("no name to serve the model under; set model.served_names")
	}
	w, err := newWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch for clients that leave: %w", err)
	}
	s := &Server{
		options:     o,
		parts:       p,
		watcher:     w,
		started:     time.Now(),
		fingerprint: fingerprint(p),
		forceUsage:  forceUsage(o.Metrics.ForceIncludeUsage),
		runs:        make(map[*run]struct{}),
		ended:       make(chan struct{}, 1),
	}
	s.ring.Store(p.Keys)
	s.app = fiber.New(fiber.Config{
		AppName:                      "wasmeter",
		BodyLimit:                    int(o.Server.BodyLimit),
		ReadBufferSize:               16 << 10, // bounds the header: 431 beyond
		WriteBufferSize:              1536,     // a usual answer that is not streamed
		ReduceMemoryUsage:            true,     // an idle connection keeps no buffers
		ReadTimeout:                  30 * time.Second,
		WriteTimeout:                 writeTimeout, // streams renew it
		IdleTimeout:                  75 * time.Second,
		Concurrency:                  o.Server.MaxConnections,
		DisablePreParseMultipartForm: true,
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		ErrorHandler:                 s.writeError,
	})
	s.app.Server().CloseOnShutdown = true
	s.app.Server().ContinueHandler = s.acceptBody
	s.app.Server().ConnState = func(c net.Conn, state fasthttp.ConnState) {
		if state == fasthttp.StateClosed {
			w.forget(c)
		}
	}
	s.routes()
	return s, nil
}

// SetKeys replaces the keys for requests that come from now on; those under way
// go on. A ring that is nil or empty serves everyone.
func (s *Server) SetKeys(r *keys.Ring) { s.ring.Store(r) }

// routes lists every path. Go on to the handler's file by the path's noun.
func (s *Server) routes() {
	s.app.Use(recover.New(recover.Config{EnableStackTrace: true, StackTraceHandler: s.logPanic}))
	s.app.Use(s.identify, s.observe)
	// What tells whether the server lives needs no key.
	s.app.Get("/health", s.ready)
	s.app.Get("/health/live", s.live)
	s.app.Get("/health/ready", s.ready)
	s.app.Get("/ping", s.live)
	s.app.Post("/ping", s.live)
	s.app.Get("/version", s.version)
	if s.parts.Observe.Scrape != nil && !s.options.Metrics.Guarded {
		s.app.Get("/metrics", s.metrics)
	}

	s.app.Use(s.authenticate)
	if s.parts.Observe.Scrape != nil && s.options.Metrics.Guarded {
		s.app.Get("/metrics", s.metrics)
	}
	s.app.Get("/v1/models", s.listModels)
	s.app.Get("/v1/models/*", s.showModel)
	s.app.Post("/v1/chat/completions", s.plainJSON, s.accepting, s.chatCompletions)
	s.app.Post("/v1/completions", s.plainJSON, s.accepting, s.completions)
	s.app.Post("/v1/responses", s.plainJSON, s.accepting, s.responses)
	s.app.Post("/tokenize", s.plainJSON, s.tokenize)
	s.app.Post("/detokenize", s.plainJSON, s.detokenize)
}

// Serve answers on the listener until ctx ends, then drains: new generations are
// refused, running ones may finish until the shutdown timeout, and the rest is
// ended with an error that says so. It returns nil after a drain.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.watcher.close()
	served := make(chan error, 1)
	go func() { served <- s.app.Listener(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.drain()
	return <-served
}

// drain ends the server as gently as the shutdown timeout allows.
func (s *Server) drain() {
	s.draining.Store(true)
	s.parts.Logger.Info("draining", "running", s.running(), "timeout", s.options.Server.ShutdownTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Server.ShutdownTimeout)
	s.wait(ctx)
	cancel()
	if n := s.running(); n > 0 {
		s.parts.Logger.Warn("ending what still runs", "running", n)
		s.mu.Lock()
		for r := range s.runs {
			r.abort(causeShutdown)
		}
		s.mu.Unlock()
	}
	// What is aborted ends within a step; a reader that does not read is left.
	ctx, cancel = context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.wait(ctx)
	if err := s.app.ShutdownWithContext(ctx); err != nil {
		s.parts.Logger.Warn("connections left open", "error", err)
	}
}

// wait returns when nothing runs or ctx ends.
func (s *Server) wait(ctx context.Context) {
	for s.running() > 0 {
		select {
		case <-s.ended:
		case <-ctx.Done():
			return
		}
	}
}

// running is the number of requests in flight.
func (s *Server) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// accepting refuses new generations while the server drains.
func (s *Server) accepting(c *fiber.Ctx) error {
	if s.draining.Load() {
		return errShuttingDown
	}
	return c.Next()
}

// plainJSON refuses bodies that say they are something else than JSON, and those
// that are encoded: unpacking one would let a small request take any amount of
// memory. What curl says of -d by itself is let through.
func (s *Server) plainJSON(c *fiber.Ctx) error {
	kind, _, _ := strings.Cut(c.Get(fiber.HeaderContentType), ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); {
	case kind == "", kind == fiber.MIMEApplicationJSON, kind == fiber.MIMEApplicationForm, strings.HasSuffix(kind, "+json"):
	default:
		return openai.UnsupportedMediaType(fmt.Sprintf("content-type %q is not supported; send application/json", kind))
	}

	if e := c.Request().Header.ContentEncoding(); len(e) > 0 && string(e) != "identity" {
		return openai.UnsupportedMediaType(fmt.Sprintf("content-encoding %q is not supported; send the JSON as it is", e))
	}
	return c.Next()
}

// acceptBody refuses a body that is too large before it is sent.
func (s *Server) acceptBody(h *fasthttp.RequestHeader) bool {
	return int64(h.ContentLength()) <= s.options.Server.BodyLimit
}

// identify gives each response an x-request-id: the client's own, if it is
// printable and at most 128 characters, so that it can be found in logs, else
// one of ours.
func (s *Server) identify(c *fiber.Ctx) error {
	id := c.Get(fiber.HeaderXRequestID)
	if !printable(id) || len(id) > 128 {
		id = newID("req-")
	}
	c.Set(fiber.HeaderXRequestID, id)
	return c.Next()
}

// printable tells whether s is not empty and all visible ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

// writeError is the one place where errors become HTTP.
func (s *Server) writeError(c *fiber.Ctx, err error) error {
	e := s.apiError(err, c)
	switch {
	case e.RetryAfter > 0:
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(e.RetryAfter))
	case e.Status == fiber.StatusTooManyRequests:
		c.Set(fiber.HeaderRetryAfter, "1")
	case e.Status == fiber.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, "5")
	case e.Status == fiber.StatusInternalServerError:
		s.parts.Logger.Error("request not served", "error", err, "path", c.Path(), "request_id", string(c.Response().Header.Peek(fiber.HeaderXRequestID)))
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Status(e.Status).Send(openai.AppendError(nil, e))
}

// apiError is what a client is told of an error. c is nil where the request is
// gone, as within a stream.
func (s *Server) apiError(err error, c *fiber.Ctx) *openai.Error {
	var api *openai.Error
	var routing *fiber.Error
	var full *engine.QueueFullError
	var long *engine.TooLongError
	var failed *plugin.Failure
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &full):
		return openai.RateLimited("queue_full", full.Error())
	case errors.As(err, &long):
		return openai.ContextLengthExceeded(promptParam(c), long.Error())
	case errors.Is(err, errGone):
		// Nobody reads this; the status is for the counters.
		return &openai.Error{Status: 499, Type: "client_closed_request", Message: err.Error()}
	case errors.Is(err, engine.ErrClosed):
		return errShuttingDown
	case errors.Is(err, engine.ErrLost):
		return errDeviceLost
	case errors.As(err, &failed):
		e := openai.ServerError(fmt.Sprintf("the plugin %q could not shape the answer (%s)", failed.Plugin, failed.Kind))
		e.Code = "plugin_error"
		return e
	case errors.As(err, &routing):
		return s.routingError(c, routing)
	}
	return openai.ServerError("the server could not answer; its log says why")
}

var errShuttingDown = openai.Unavailable("shutting_down", "the server is shutting down; try again later, or on another server")

var errDeviceLost = openai.Unavailable("device_lost", "the device that computes is lost; try another server, this one must be started again")

// promptParam is the field that holds the prompt.
func promptParam(c *fiber.Ctx) string {
	if c == nil {
		return ""
	}
	switch c.Path() {
	case "/v1/completions":
		return "prompt"
	case "/v1/responses":
		return "input"
	}
	return "messages"
}

// routingError is what fiber and fasthttp refuse before any handler of ours.
func (s *Server) routingError(c *fiber.Ctx, err *fiber.Error) *openai.Error {
	switch err.Code {
	case fiber.StatusNotFound:
		return openai.RouteNotFound(c.Method(), c.Path())
	case fiber.StatusMethodNotAllowed:
		return openai.MethodNotAllowed(c.Method(), c.Path(), string(c.Response().Header.Peek(fiber.HeaderAllow)))
	case fiber.StatusRequestEntityTooLarge:
		return openai.BodyTooLarge(int(s.options.Server.BodyLimit))
	}
	e := openai.InvalidRequest("", err.Message)
	e.Status = err.Code
	return e
}

// logPanic records a bug of ours; the client gets a 500.
func (s *Server) logPanic(c *fiber.Ctx, v any) {
	s.parts.Logger.Error("panic in a handler", "panic", v, "path", c.Path(), "stack", stack())
}

// now is the wall clock in seconds, as `created` counts.
func now() int64 { return time.Now().Unix() }

// forceUsage is the setting as package openai has it; Validate has checked the
// word.
func forceUsage(word string) openai.ForceUsage {
	switch word {
	case "final":
		return openai.ForceFinal
	case "continuous":
		return openai.ForceContinuous
	}
	return openai.ForceOff
}
