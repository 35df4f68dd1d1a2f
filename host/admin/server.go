package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// Options steer a Server.
type Options struct {
	// Token is what operators show. SetToken replaces it.
	Token Token
	// Host is the configured host, which may be a name that operators ask for.
	Host string
	// GuardMetrics asks for the token on /metrics too.
	GuardMetrics bool
	// Reload reads the configuration again and loads its plugins. An error says
	// what is wrong; then all goes on as it was.
	Reload func(ctx context.Context) error
	// Plugins are those that requests begin with.
	Plugins *plugin.Current
	// Scrape writes the metrics in a form that accept allows, and names its
	// content type.
	Scrape func(w io.Writer, accept string) (contentType string, err error)
}

// Server answers operators.
type Server struct {
	options Options
	token   atomic.Pointer[Token]
	http    http.Handler
}

const (
	pluginsPath = "/admin/plugins"
	metricsPath = "/metrics"
)

// New makes a server.
func New(o Options) *Server {
	s := &Server{options: o}
	s.token.Store(&o.Token)
	mux := http.NewServeMux()
	for _, r := range []struct {
		method, path string
		answer       http.HandlerFunc
	}{
		{"GET", pluginsPath, s.list},
		{"POST", pluginsPath + "/reload", s.reload},
		{"POST", pluginsPath + "/{name}/disable", s.turn(o.Plugins.Disable)},
		{"POST", pluginsPath + "/{name}/enable", s.turn(o.Plugins.Enable)},
		{"POST", pluginsPath + "/{name}/selftest", s.selfTest},
		{"GET", metricsPath, s.metrics},
	} {
		mux.HandleFunc(r.method+" "+r.path, r.answer)
		mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Allow", r.method)
			fail(w, openai.MethodNotAllowed(q.Method, q.URL.Path, r.method))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) { fail(w, openai.RouteNotFound(q.Method, q.URL.Path)) })
	s.http = s.guard(mux)
	return s
}

// SetToken replaces the token at once.
func (s *Server) SetToken(t Token) { s.token.Store(&t) }

// HTTP is the server with its limits. Answers have none of time: a reload may
// compile for a minute.
func (s *Server) HTTP() *http.Server {
	return &http.Server{Handler: s.http, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	answer(w, describe(s.options.Plugins.Status()))
}

func (s *Server) reload(w http.ResponseWriter, q *http.Request) {
	if err := s.options.Reload(q.Context()); err != nil {
		fail(w, &openai.Error{Status: http.StatusConflict, Type: "invalid_request_error", Message: err.Error(), Code: "reload_failed"})
		return
	}
	s.list(w, q)
}

// turn disables or enables a plugin and answers with what became of it.
func (s *Server) turn(turn func(name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		name := q.PathValue("name")
		if err := turn(name); err != nil {
			failPlugin(w, err)
			return
		}
		for _, p := range describe(s.options.Plugins.Status()).Plugins {
			if p.Name == name {
				answer(w, p)
				return
			}
		}
		failPlugin(w, &plugin.UnknownError{Name: name}) // a reload has just removed it
	}
}

func (s *Server) selfTest(w http.ResponseWriter, q *http.Request) {
	trials, err := s.options.Plugins.SelfTest(q.Context(), q.PathValue("name"))
	if err != nil {
		failPlugin(w, err)
		return
	}
	answer(w, describeTrials(q.PathValue("name"), trials))
}

func (s *Server) metrics(w http.ResponseWriter, q *http.Request) {
	var out bytes.Buffer
	contentType, err := s.options.Scrape(&out, q.Header.Get("Accept"))
	if err != nil {
		fail(w, openai.ServerError("gather metrics: "+err.Error()))
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(out.Bytes()) // the operator has gone
}

// answer writes a document.
func answer(w http.ResponseWriter, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		fail(w, openai.ServerError("write the answer: "+err.Error()))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the operator has gone
}

func fail(w http.ResponseWriter, e *openai.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(openai.AppendError(nil, e), '\n')) // the operator has gone
}

func failPlugin(w http.ResponseWriter, err error) {
	e := openai.ServerError(err.Error())
	if unknown := (*plugin.UnknownError)(nil); errors.As(err, &unknown) {
		e = &openai.Error{Status: http.StatusNotFound, Type: "invalid_request_error", Message: err.Error(), Code: "plugin_not_found"}
	}
	fail(w, e)
}
