package host

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// Admin is what operators may ask for, on a listener of its own.
type Admin struct {
	// Reload reads the configuration again and loads its plugins. An error says
	// what is wrong; then those that ran go on running.
	Reload func(ctx context.Context) error
	// Plugins are those that requests begin with.
	Plugins *plugin.Current
	// Scrape writes the metrics, as Observer's does.
	Scrape func(w io.Writer, accept string) (contentType string, err error)
}

// Server makes the operators' server: POST /plugins/reload, GET /plugins and GET
// /metrics. It asks for no key: its address must be out of clients' reach.
func (a Admin) Server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /plugins", func(w http.ResponseWriter, _ *http.Request) { a.list(w) })
	mux.HandleFunc("POST /plugins/reload", func(w http.ResponseWriter, q *http.Request) {
		if err := a.Reload(q.Context()); err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write(openai.AppendError(nil, &openai.Error{Type: "invalid_request_error", Message: err.Error(), Code: "reload_failed"})) // the operator has gone
			return
		}
		a.list(w)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, q *http.Request) {
		var out bytes.Buffer
		contentType, err := a.Scrape(&out, q.Header.Get("Accept"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(out.Bytes()) // the operator has gone
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
}

// list writes the plugins' names and hashes.
func (a Admin) list(w http.ResponseWriter) {
	set := a.Plugins.Acquire()
	defer set.Release()
	body := []byte(`{"plugins":[`)
	for i, p := range set.Plugins() {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"name":"`+p.Name()+`","sha256":"`+p.Hash()+`"}`...) // names and hashes need no escapes
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, "]}\n"...)) // the operator has gone
}
