package host

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend/sim"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
	"github.com/wasmeter/wasmeter/host/chat"
	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/ledger"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// template is ChatML, as the byte tokenizer's control tokens have it.
const template = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// fixture is a server on a free port with a real engine on a simulated device
// and the default plugin.
type fixture struct {
	*Server
	t      testing.TB
	url    string
	engine *engine.Engine
	stop   context.CancelFunc
	served chan error
}

// setup is what a test may change.
type setup struct {
	options Options
	engine  engine.Options
	sim     sim.Options
	model   func(model.Model) model.Model // around the simulated device; nil: none
	keys    *keys.Ring
	ledger  ledger.Recorder
}

// metricsPlugin compiles the default plugin once for all tests.
var metricsPlugin = sync.OnceValues(func() (*plugin.Current, error) {
	ctx := context.Background()
	h, err := plugin.NewHost(ctx, plugin.Options{Reserved: openai.Reserved(openai.Chat)})
	if err != nil {
		return nil, err
	}
	current := plugin.NewCurrent(h)
	return current, current.Reload(ctx, []plugin.Spec{
		{Name: "metrics", Wasm: plugins.Module("metrics"), Grants: plugin.Grants{Fields: []string{"metrics"}}},
	})
})

func serve(t testing.TB, change func(*setup)) *fixture {
	t.Helper()
	tok := tokenizer.Bytes()
	eos, _ := tok.EOS()
	u := setup{options: Default(), engine: engine.Default(), sim: sim.Options{Vocab: tok.Size(), EOS: eos}}
	u.options.Metrics.PerRequest = true
	u.options.Server.ShutdownTimeout = 5 * time.Second
	if change != nil {
		change(&u)
	}
	m, err := sim.New(u.sim)
	if err != nil {
		t.Fatal(err)
	}
	var around model.Model = m
	if u.model != nil {
		around = u.model(m)
	}
	e, err := engine.New(around, tok, u.engine)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := metricsPlugin()
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.New(chat.Options{Template: template, Specials: tok.Specials()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(u.options, Parts{Engine: e, Template: tmpl, Plugins: metrics, Keys: u.keys, Ledger: u.ledger, Models: []string{"sim"}, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &fixture{Server: s, t: t, url: "http://" + l.Addr().String(), engine: e, stop: stop, served: make(chan error, 1)}
	go func() { f.served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-f.served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := s.running(); n != 0 {
			t.Errorf("%d requests still run after the drain", n)
		}
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
		if st := e.Stats(); st.UsedBlocks != 0 || st.Running != 0 || st.Waiting != 0 {
			t.Errorf("engine after close: %+v", st)
		}
	})
	return f
}

// reply is an answer read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) do(method, path, body string, header ...string) reply {
	f.t.Helper()
	q, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		f.t.Fatalf("%s %s: read the body: %v", method, path, err)
	}
	return reply{a.StatusCode, a.Header, string(b)}
}

// chatBody is a chat request about a fox with more members.
func chatBody(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"sim","messages":[{"role":"user","content":"fox"}],"temperature":0` + more + `}`
}

func (f *fixture) chat(more string) map[string]any {
	f.t.Helper()
	r := f.do("POST", "/v1/chat/completions", chatBody(more))
	if r.status != 200 {
		f.t.Fatalf("chat %s: %d %s", more, r.status, r.body)
	}
	return decode(f.t, r.body)
}

func decode(t testing.TB, body string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}

// at walks down objects and lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// chunks splits a stream into its documents and checks its framing.
func chunks(t *testing.T, r reply) []map[string]any {
	t.Helper()
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("not a stream: %d %v %s", r.status, r.header, r.body)
	}
	if r.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("cache-control %q, want no-cache", r.header.Get("Cache-Control"))
	}
	var out []map[string]any
	events := strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n")
	for i, e := range events {
		data, ok := strings.CutPrefix(e, "data: ")
		if strings.HasPrefix(e, ":") {
			continue
		}
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("event %d is %q", i, e)
		}
		if data == "[DONE]" {
			if i != len(events)-1 {
				t.Fatalf("[DONE] at %d of %d events", i, len(events))
			}
			return out
		}
		out = append(out, decode(t, data))
	}
	t.Fatalf("no [DONE] in %q", r.body)
	return nil
}

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}
