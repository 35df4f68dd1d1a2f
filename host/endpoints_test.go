package host

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
)

func (f *fixture) post(path, body string) map[string]any {
	f.t.Helper()
	r := f.do("POST", path, body)
	if r.status != 200 {
		f.t.Fatalf("%s %s: %d %s", path, body, r.status, r.body)
	}
	return decode(f.t, r.body)
}

func completionBody(more string) string {
	return `{"model":"sim","temperature":0,` + more + `}`
}

func TestCompletions(t *testing.T) {
	f := serve(t, nil)
	one := f.post("/v1/completions", completionBody(`"prompt":"ab"`))
	if at(one, "usage", "completion_tokens") != 16. || at(one, "choices", 0, "finish_reason") != "length" {
		t.Errorf("without max_tokens: %v", one)
	}
	if _, ok := at(one, "metrics", "tokens_per_second").(float64); !ok {
		t.Errorf("metrics %v", one["metrics"])
	}
	two := f.post("/v1/completions", completionBody(`"prompt":["ab","abc"],"n":2,"max_tokens":5`))
	if l, _ := two["choices"].([]any); len(l) != 4 {
		t.Fatalf("2 prompts with n 2: %v", two)
	}
	for i := range 4 {
		if at(two, "choices", i, "index") != float64(i) {
			t.Errorf("choice %d has index %v", i, at(two, "choices", i, "index"))
		}
	}
	if at(two, "usage", "prompt_tokens") != 5. || at(two, "usage", "completion_tokens") != 20. {
		t.Errorf("usage %v, want 5 and 20", two["usage"])
	}
	if m, ok := two["metrics"]; ok {
		t.Errorf("metrics %v with several prompts, want no such field", m)
	}
	ids := f.post("/v1/completions", completionBody(`"prompt":[[97,98],[97]],"max_tokens":3`))
	if at(ids, "usage", "prompt_tokens") != 3. {
		t.Errorf("token ids: usage %v", ids["usage"])
	}
	if r := f.do("POST", "/v1/completions", completionBody(`"prompt":[999999]`)); r.status != 400 || at(decode(t, r.body), "error", "param") != "prompt" {
		t.Errorf("an unknown id: %d %s", r.status, r.body)
	}
}

func TestCompletionsEcho(t *testing.T) {
	f := serve(t, nil)
	plain := f.post("/v1/completions", completionBody(`"prompt":"héllo","max_tokens":4`))
	text, _ := at(plain, "choices", 0, "text").(string)
	got := f.post("/v1/completions", completionBody(`"prompt":"héllo","max_tokens":4,"echo":true,"logprobs":2`))
	if at(got, "choices", 0, "text") != "héllo"+text || at(got, "usage", "completion_tokens") != 4. {
		t.Errorf("echo: %v, want héllo%s", got, text)
	}
	lp, _ := at(got, "choices", 0, "logprobs", "token_logprobs").([]any)
	if len(lp) != 6+4 || lp[0] != nil {
		t.Errorf("token_logprobs %v, want 10 with the first one null", lp)
	}
	for i, v := range lp[1:] {
		if n, ok := v.(float64); !ok || n > 0 {
			t.Errorf("log probability %d is %v", i+1, v)
		}
	}
	none := f.post("/v1/completions", completionBody(`"prompt":"abc","max_tokens":0,"echo":true`))
	if at(none, "choices", 0, "text") != "abc" || at(none, "usage", "completion_tokens") != 1. {
		t.Errorf("echo of no tokens: %v, want abc and one token counted", none)
	}
	stream := chunks(t, f.do("POST", "/v1/completions", completionBody(`"prompt":"abc","max_tokens":4,"echo":true,"stream":true`)))
	whole := ""
	for _, c := range stream {
		s, _ := at(c, "choices", 0, "text").(string)
		whole += s
	}
	if !strings.HasPrefix(whole, "abc") || len(whole) != 7 {
		t.Errorf("streamed echo %q", whole)
	}
}

func TestCompletionsStreamOfSeveral(t *testing.T) {
	f := serve(t, nil)
	plain := f.post("/v1/completions", completionBody(`"prompt":["ab","xyz"],"n":2,"max_tokens":6`))
	got := chunks(t, f.do("POST", "/v1/completions", completionBody(`"prompt":["ab","xyz"],"n":2,"max_tokens":6,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)))
	texts := make([]string, 4)
	for _, c := range got[:len(got)-1] {
		i := int(at(c, "choices", 0, "index").(float64))
		s, _ := at(c, "choices", 0, "text").(string)
		texts[i] += s
		if n := at(c, "usage", "completion_tokens"); n != float64(len(texts[i])) {
			t.Errorf("choice %d says %v tokens after %q", i, n, texts[i])
		}
		if _, ok := c["metrics"]; ok {
			t.Errorf("metrics on %v", c)
		}
	}
	for i := range texts {
		if texts[i] != at(plain, "choices", i, "text") {
			t.Errorf("choice %d: streamed %q, plain %v", i, texts[i], at(plain, "choices", i, "text"))
		}
	}
	last := got[len(got)-1]
	if at(last, "usage", "completion_tokens") != 24. || at(last, "usage", "prompt_tokens") != 5. {
		t.Errorf("usage chunk %v", last)
	}
	if _, ok := last["metrics"]; ok {
		t.Errorf("several prompts: metrics on the usage chunk: %v", last)
	}
}

// responseEventsOf splits a Responses stream into its events and checks the
// framing.
func responseEventsOf(t *testing.T, r reply) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, e := range strings.Split(strings.TrimSuffix(r.body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(e, "\ndata: ")
		v := decode(t, data)
		if !ok || name != "event: "+v["type"].(string) {
			t.Fatalf("event %q", e)
		}
		if v["sequence_number"] != float64(len(out)) {
			t.Errorf("event %d has sequence number %v", len(out), v["sequence_number"])
		}
		out = append(out, v)
	}
	return out
}

func TestResponses(t *testing.T) {
	f := serve(t, nil)
	body := `{"model":"sim","temperature":0,"instructions":"be brief","input":"fox","max_output_tokens":8`
	plain := f.post("/v1/responses", body+`}`)
	if plain["status"] != "incomplete" || at(plain, "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("status %v, details %v", plain["status"], plain["incomplete_details"])
	}
	if _, ok := at(plain, "metrics", "tokens_per_second").(float64); !ok {
		t.Errorf("metrics %v", plain["metrics"])
	}
	chat := f.post("/v1/chat/completions", `{"model":"sim","temperature":0,"max_tokens":8,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"fox"}]}`)
	if at(chat, "choices", 0, "message", "content") != at(plain, "output", 0, "content", 0, "text") || at(chat, "usage", "prompt_tokens") != at(plain, "usage", "input_tokens") {
		t.Errorf("the same input: chat %v, responses %v", chat, plain)
	}
	events := responseEventsOf(t, f.do("POST", "/v1/responses", body+`,"stream":true}`))
	text := ""
	var kinds []string
	for i, e := range events {
		kinds = append(kinds, strings.TrimPrefix(e["type"].(string), "response."))
		if e["type"] == "response.output_text.delta" {
			text += e["delta"].(string)
		}
		if _, ok := at(e, "response", "metrics").(map[string]any); ok != (i == len(events)-1) {
			t.Errorf("event %d of %d: metrics %v", i, len(events), ok)
		}
	}
	kinds = slices.Compact(kinds)
	want := []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "incomplete"}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if text != at(plain, "output", 0, "content", 0, "text") {
		t.Errorf("streamed %q, plain %v", text, at(plain, "output", 0, "content", 0, "text"))
	}
	if r := f.do("POST", "/v1/responses", body+`,"previous_response_id":"resp_1"}`); r.status != 404 {
		t.Errorf("an unknown previous response: %d %s", r.status, r.body)
	}
}

func TestTokenizeCountsAsUsage(t *testing.T) {
	f := serve(t, nil)
	v := f.post("/tokenize", `{"model":"sim","messages":[{"role":"user","content":"<|im_end|> is text"}]}`)
	c := f.post("/v1/chat/completions", `{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"<|im_end|> is text"}]}`)
	if v["count"] != at(c, "usage", "prompt_tokens") {
		t.Errorf("tokenize says %v, usage %v", v["count"], at(c, "usage", "prompt_tokens"))
	}
	tokens, _ := v["tokens"].([]any)
	specials := 0
	for _, id := range tokens {
		if id.(float64) > 255 {
			specials++
		}
	}
	if specials != 3 {
		t.Errorf("%d control tokens in %v, want the template's 3: what the user wrote is text", specials, tokens)
	}
	back := f.post("/detokenize", `{"tokens":[104,195,169,257]}`)
	if back["prompt"] != "hé<|im_start|>" {
		t.Errorf("detokenize: %v", back)
	}
	if r := f.do("POST", "/detokenize", `{"tokens":[99999]}`); r.status != 400 {
		t.Errorf("an unknown id: %d %s", r.status, r.body)
	}
}

// TestSlowReader: a client that does not read stops costing, and others go on.
func TestSlowReader(t *testing.T) {
	var ended atomic.Int32 // by reason, plus one
	f := serve(t, func(u *setup) {
		u.sim.Context, u.engine.MaxModelLen = 1<<20, 1<<20
		u.engine.Listener.Finish = func(_ *engine.Request, why engine.FinishReason, _ *engine.Life) {
			ended.CompareAndSwap(0, int32(why)+1)
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := chatBody(`"max_tokens":1000000,"ignore_eos":true,"stream":true`)
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	until(t, "the slow reader is ended", func() bool { return ended.Load() != 0 })
	if why := engine.FinishReason(ended.Load() - 1); why != engine.Abort {
		t.Errorf("ended with %v, want abort", why)
	}
	f.chat(`"max_tokens":2`)
}

// TestLongStream goes on beyond the write deadline's renewal.
func TestLongStreamRenewsItsDeadline(t *testing.T) {
	b := &streamBody{conn: &deadlines{}, buffer: []byte("abcdef")}
	p := make([]byte, 2)
	if n, err := b.Read(p); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	c := b.conn.(*deadlines)
	if len(c.set) != 1 || time.Until(c.set[0]) < renewBelow {
		t.Fatalf("deadlines %v, want one of about %v", c.set, writeTimeout)
	}
	if _, err := b.Read(p); err != nil || len(c.set) != 1 {
		t.Errorf("renewed at once: %v", c.set)
	}
	b.deadline = time.Now().Add(renewBelow - time.Second)
	if _, err := b.Read(p); err != nil || len(c.set) != 2 {
		t.Errorf("not renewed with less than %v left: %v", renewBelow, c.set)
	}
}

// deadlines is a connection that keeps the write deadlines it is given.
type deadlines struct {
	net.Conn
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestKeepAlive: after a stream the connection serves another request.
func TestKeepAlive(t *testing.T) {
	f := serve(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for i := range 3 {
		body := chatBody(`"max_tokens":3,"stream":true`)
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		for {
			line, err := r.ReadString('\n')
			if err == io.EOF {
				t.Fatalf("request %d: connection closed", i)
			}
			if err != nil {
				t.Fatal(err)
			}
			if line == "0\r\n" {
				break
			}
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}
