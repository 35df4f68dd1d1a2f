package host

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/keys"
)

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
