package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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

func TestChat(t *testing.T) {
	f := serve(t, nil)
	v := f.chat(`"max_tokens":7`)
	text, _ := at(v, "choices", 0, "message", "content").(string)
	if len(text) != 7 || at(v, "choices", 0, "finish_reason") != "length" {
		t.Errorf("text %q, finish %v; want 7 bytes and length", text, at(v, "choices", 0, "finish_reason"))
	}
	// <|im_start|>user\nfox<|im_end|>\n<|im_start|>assistant\n, a byte or a control token each
	if at(v, "usage", "prompt_tokens") != float64(1+8+1+1+1+10) || at(v, "usage", "completion_tokens") != 7. || at(v, "usage", "total_tokens") != 29. {
		t.Errorf("usage %v", v["usage"])
	}
	if id, _ := v["id"].(string); !strings.HasPrefix(id, "chatcmpl-") {
		t.Errorf("id %q", id)
	}
	m, _ := v["metrics"].(map[string]any)
	for _, k := range []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"} {
		if n, ok := m[k].(float64); !ok || n < 0 {
			t.Errorf("metrics.%s is %v", k, m[k])
		}
	}
}

func TestChatStream(t *testing.T) {
	f := serve(t, nil)
	plain := f.chat(`"max_tokens":9`)
	for _, c := range []struct {
		name, options string
		usage         bool
	}{
		{"no usage", "", false},
		{"usage refused", `,"stream_options":{"include_usage":false}`, false},
		{"usage", `,"stream_options":{"include_usage":true}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":9,"stream":true`+c.options)))
			text := ""
			for i, v := range got {
				if _, ok := v["metrics"]; ok && (i != len(got)-1 || !c.usage) {
					t.Errorf("metrics on chunk %d of %d: %v", i, len(got), v)
				}
				if s, ok := at(v, "choices", 0, "delta", "content").(string); ok {
					text += s
				}
			}
			if text != at(plain, "choices", 0, "message", "content") {
				t.Errorf("streamed %q, plain %v", text, at(plain, "choices", 0, "message", "content"))
			}
			if at(got[0], "choices", 0, "delta", "role") != "assistant" {
				t.Errorf("first chunk %v", got[0])
			}
			last := got[len(got)-1]
			if !c.usage {
				if at(last, "choices", 0, "finish_reason") != "length" {
					t.Errorf("last chunk %v", last)
				}
				return
			}
			if l, _ := last["choices"].([]any); len(l) != 0 || at(last, "usage", "completion_tokens") != 9. {
				t.Errorf("usage chunk %v", last)
			}
			if _, ok := at(last, "metrics", "tokens_per_second").(float64); !ok {
				t.Errorf("usage chunk without metrics: %v", last)
			}
		})
	}
}

// TestMetricsRules: what the documented rules say of a whole answer. The
// formulas are tested with the plugin.
func TestMetricsRules(t *testing.T) {
	on := serve(t, nil)
	t.Run("several choices are null", func(t *testing.T) {
		v := on.chat(`"n":2,"max_tokens":3`)
		if m, ok := v["metrics"]; !ok || m != nil {
			t.Errorf("metrics %v, want null and there", m)
		}
		if at(v, "usage", "completion_tokens") != 6. {
			t.Errorf("usage %v, want 6 tokens of both", v["usage"])
		}
	})
	t.Run("one token", func(t *testing.T) {
		v := on.chat(`"max_tokens":1`)
		if m, ok := at(v, "metrics").(map[string]any); !ok || m["mean_itl_ms"] != nil || m["generation_time_ms"] != 0. || m["tokens_per_second"] == nil {
			t.Errorf("metrics %v, want null mean_itl_ms and 0 generation_time_ms", v["metrics"])
		}
	})
	t.Run("identities", func(t *testing.T) {
		m := at(on.chat(`"max_tokens":20`), "metrics")
		ttft, gen := at(m, "time_to_first_token_ms").(float64), at(m, "generation_time_ms").(float64)
		if want, got := 20/(ttft+gen)*1000, at(m, "tokens_per_second").(float64); got/want < 1-5e-7 || got/want > 1+5e-7 {
			t.Errorf("tokens_per_second %v, want %v", got, want)
		}
	})
	t.Run("switched off", func(t *testing.T) {
		off := serve(t, func(u *setup) { u.options.Metrics.PerRequest = false })
		if v, ok := off.chat(`"max_tokens":2`)["metrics"]; ok {
			t.Errorf("metrics %v without the flag", v)
		}
	})
	t.Run("no timing data", func(t *testing.T) {
		// log_stats false with per_request true is refused at start; timing that
		// is unknown for another reason gives nulls.
		f := serve(t, nil)
		f.Server.options.Metrics.LogStats = false
		m, ok := f.chat(`"max_tokens":2`)["metrics"].(map[string]any)
		if !ok || len(m) != 5 {
			t.Fatalf("metrics %v, want five nulls", m)
		}
		for k, v := range m {
			if v != nil {
				t.Errorf("%s is %v, want null", k, v)
			}
		}
	})
	t.Run("usage forced", func(t *testing.T) {
		f := serve(t, func(u *setup) { u.options.Metrics.ForceIncludeUsage = "final" })
		got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":3,"stream":true`)))
		if at(got[len(got)-1], "metrics", "tokens_per_second") == nil {
			t.Errorf("last chunk %v, want usage with metrics", got[len(got)-1])
		}
		for _, v := range got[:len(got)-1] {
			if v["usage"] != nil {
				t.Errorf("usage on an earlier chunk: %v", v)
			}
		}
	})
	t.Run("usage forced on every chunk", func(t *testing.T) {
		f := serve(t, func(u *setup) { u.options.Metrics.ForceIncludeUsage = "continuous" })
		got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":3,"stream":true`)))
		before := -1.
		for i, v := range got {
			n, ok := at(v, "usage", "completion_tokens").(float64)
			if !ok || n < before {
				t.Errorf("chunk %d of %d has usage %v after %v tokens", i, len(got), v["usage"], before)
			}
			before = n
		}
	})
	t.Run("errors have none", func(t *testing.T) {
		if r := on.do("POST", "/v1/chat/completions", chatBody(`"n":0`)); r.status != 400 || strings.Contains(r.body, "metrics") {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

func TestRefusedAtStart(t *testing.T) {
	o := Default()
	o.Metrics.PerRequest, o.Metrics.LogStats = true, false
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "log_stats") {
		t.Errorf("per-request metrics without statistics: %v", err)
	}
	o = Default()
	o.Server.Host = "0.0.0.0"
	if _, err := New(o, Parts{}); err == nil || !strings.Contains(err.Error(), "insecure") {
		t.Errorf("open to the world without keys: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	f := serve(t, func(u *setup) { u.options.Server.BodyLimit = 64 << 10 })
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		param, code              any
	}{
		{name: "not JSON", body: `hello`, status: 400},
		{name: "empty", body: ``, status: 400},
		{name: "not an object", body: `[1]`, status: 400},
		{name: "duplicate key", body: `{"model":"sim","model":"sim","messages":[]}`, status: 400},
		{name: "invalid UTF-8", body: "{\"model\":\"\xff\"}", status: 400},
		{name: "wrong type", body: chatBody(`"max_tokens":"many"`), status: 400, param: "max_tokens"},
		{name: "negative", body: chatBody(`"max_tokens":-1`), status: 400, param: "max_tokens"},
		{name: "huge", body: chatBody(`"temperature":1e999`), status: 400},
		{name: "too many tokens", body: chatBody(`"max_tokens":100000`), status: 400, param: "max_tokens", code: "context_length_exceeded"},
		{name: "no messages", body: `{"model":"sim","messages":[]}`, status: 400, param: "messages"},
		{name: "unknown model", body: `{"model":"gpt","messages":[{"role":"user","content":"a"}]}`, status: 404, param: "model", code: "model_not_found"},
		{name: "bias out of vocabulary", body: chatBody(`"logit_bias":{"99999":1}`), status: 400, param: "logit_bias"},
		{name: "stop token out of vocabulary", body: chatBody(`"stop_token_ids":[99999]`), status: 400, param: "stop_token_ids"},
		{name: "prompt too long", body: `{"model":"sim","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("a", 9000) + `"}]}`, status: 400, code: "context_length_exceeded"},
		{name: "too large", body: `{"model":"` + strings.Repeat("a", 70<<10) + `"}`, status: 413},
		{name: "encoded", body: "x", header: []string{"Content-Encoding", "gzip"}, status: 415},
		{name: "not called JSON", body: chatBody(""), header: []string{"Content-Type", "text/plain"}, status: 415},
		{name: "unknown route", path: "/v1/nothing", status: 404, body: "{}"},
		{name: "wrong method", method: "GET", status: 405},
		{name: "unknown model by path", method: "GET", path: "/v1/models/none", status: 404, code: "model_not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			method, path := c.method, c.path
			if method == "" {
				method = "POST"
			}
			if path == "" {
				path = "/v1/chat/completions"
			}
			r := f.do(method, path, c.body, c.header...)
			if r.status != c.status {
				t.Fatalf("%d %s, want %d", r.status, r.body, c.status)
			}
			e, _ := decode(t, r.body)["error"].(map[string]any)
			for _, k := range []string{"message", "type", "param", "code"} {
				if _, ok := e[k]; !ok {
					t.Errorf("error without %s: %s", k, r.body)
				}
			}
			if c.param != nil && e["param"] != c.param {
				t.Errorf("param %v, want %v: %s", e["param"], c.param, r.body)
			}
			if c.code != nil && e["code"] != c.code {
				t.Errorf("code %v, want %v", e["code"], c.code)
			}
			if c.status == 405 && r.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	f.chat(`"max_tokens":2`) // others go on
}

func TestSmallEndpoints(t *testing.T) {
	f := serve(t, nil)
	for _, path := range []string{"/health", "/health/live", "/health/ready"} {
		if r := f.do("GET", path, ""); r.status != 200 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if v := decode(t, f.do("GET", "/version", "").body); v["version"] != "test" {
		t.Errorf("version %v", v)
	}
	if v := decode(t, f.do("GET", "/v1/models", "").body); at(v, "data", 0, "id") != "sim" || v["object"] != "list" {
		t.Errorf("models %v", v)
	}
	if v := decode(t, f.do("GET", "/v1/models/sim", "").body); v["id"] != "sim" || v["object"] != "model" {
		t.Errorf("model %v", v)
	}
}

func TestKeys(t *testing.T) {
	ring := &keys.Ring{}
	if err := ring.Add("secret", keys.Owner{Name: "alice", Tenant: "acme"}); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(u *setup) { u.keys = ring })
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "secret"}, {"Authorization", "Basic secret"}, {"Authorization", "Bearer "}} {
		for _, path := range []string{"/v1/models", "/v1/nothing"} {
			if r := f.do("GET", path, "", header...); r.status != 401 || at(decode(t, r.body), "error", "code") != "invalid_api_key" || r.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%v on %s: %d %s", header, path, r.status, r.body)
			}
		}
	}
	if r := f.do("GET", "/v1/models", "", "Authorization", "bearer secret"); r.status != 200 {
		t.Errorf("the right key: %d %s", r.status, r.body)
	}
	if r := f.do("GET", "/health", ""); r.status != 200 {
		t.Errorf("health without a key: %d", r.status)
	}
}

func TestRequestID(t *testing.T) {
	f := serve(t, nil)
	r := f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":1`), "X-Request-Id", "mine-1")
	if r.header.Get("X-Request-Id") != "mine-1" || at(decode(t, r.body), "id") != "chatcmpl-mine-1" {
		t.Errorf("id %q, body %s", r.header.Get("X-Request-Id"), r.body)
	}
	for _, bad := range []string{"", strings.Repeat("x", 129), "a b"} {
		if got := f.do("GET", "/version", "", "X-Request-Id", bad).header.Get("X-Request-Id"); got == bad || got == "" {
			t.Errorf("id %q came back as %q, want one of ours", bad, got)
		}
	}
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

// TestClientLeaves: queued, streamed or not, a client that goes frees its slot.
func TestClientLeaves(t *testing.T) {
	f := serve(t, func(u *setup) { u.sim.StepBase, u.engine.MaxNumSeqs = 2*time.Millisecond, 1 })
	for _, c := range []struct {
		name string
		more string
		read bool // until the first event
	}{
		{"not streamed", `"max_tokens":4000,"ignore_eos":true`, false},
		{"streamed", `"max_tokens":4000,"ignore_eos":true,"stream":true`, true},
		{"streamed, unread", `"max_tokens":4000,"ignore_eos":true,"stream":true`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conns []net.Conn
			for range 2 { // the second one queues
				conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				body := chatBody(c.more)
				fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				conns = append(conns, conn)
			}
			until(t, "one runs, one waits", func() bool { s := f.engine.Stats(); return s.Running == 1 && s.Waiting == 1 })
			if c.read {
				line, err := bufio.NewReader(conns[0]).ReadString('\n')
				if err != nil || !strings.Contains(line, "200") {
					t.Fatalf("first line %q, %v", line, err)
				}
			}
			for _, conn := range conns {
				conn.Close()
			}
			until(t, "nothing runs", func() bool { s := f.engine.Stats(); return s.Running == 0 && s.Waiting == 0 && s.UsedBlocks == 0 })
			until(t, "nothing is kept", func() bool { return f.running() == 0 })
		})
	}
}

func TestDrain(t *testing.T) {
	f := serve(t, func(u *setup) {
		u.sim.StepBase = 2 * time.Millisecond
		u.options.Server.ShutdownTimeout = 1500 * time.Millisecond
	})
	run := func(more string) chan reply {
		out := make(chan reply, 1)
		go func() { out <- f.do("POST", "/v1/chat/completions", chatBody(more)) }()
		return out
	}
	short := run(`"max_tokens":60,"ignore_eos":true,"stream":true`)
	long := run(`"max_tokens":4000,"ignore_eos":true,"stream":true`)
	whole := run(`"max_tokens":4000,"ignore_eos":true`)
	until(t, "all run", func() bool { return f.engine.Stats().Running == 3 })
	f.stop()
	until(t, "draining", func() bool { return f.draining.Load() })
	if r := f.do("GET", "/health/ready", ""); r.status != 503 {
		t.Errorf("ready while draining: %d", r.status)
	}
	if r := f.do("POST", "/v1/chat/completions", chatBody("")); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("a new request while draining: %d %v", r.status, r.header)
	}
	if got := chunks(t, <-short); at(got[len(got)-1], "choices", 0, "finish_reason") != "length" {
		t.Errorf("the short stream was not finished: %v", got[len(got)-1])
	}
	got := chunks(t, <-long)
	if at(got[len(got)-1], "error", "code") != "shutting_down" {
		t.Errorf("the long stream ends with %v, want an error event", got[len(got)-1])
	}
	if r := <-whole; r.status != 503 {
		t.Errorf("the long request: %d %s, want 503", r.status, r.body)
	}
}
