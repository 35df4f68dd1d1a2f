package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// failureOf gives the kind of a failure, "" for no error.
func failureOf(t *testing.T, err error) FailureKind {
	t.Helper()
	if err == nil {
		return ""
	}
	var failure *Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want a *Failure", err)
	}
	return failure.Kind
}

func TestRequest(t *testing.T) {
	all := Grants{Deny: true, Headers: []string{"x-cost-*", "x-plan"}}
	none := Grants{}
	const message = `"message":"5 requests are enough"`
	for _, c := range []struct {
		name, result string
		grants       Grants
		kind         FailureKind
		want         string // the verdict, or part of the error
	}{
		{"passes", ``, none, "", "<nil> []"},
		{"empty", `{}`, none, "", "<nil> []"},
		{"carry", `{"carry":"c"}`, none, "", "<nil> []"},
		{"denies", `{"deny":{"status":429,"code":"quota",` + message + `,"retry_after":2}}`, all, "", "&{test 429 quota 5 requests are enough 2} []"},
		{"escapes", `{"deny":{"status":429,"code":"quota","message":"\u00e9\n"}}`, all, "", "&{test 429 quota é\n 0} []"},
		{"headers", `{"headers":{"x-plan":"free","x-cost-eur":"a \" b"}}`, all, "", `<nil> [{x-plan free} {x-cost-eur a " b}]`},
		{"denies and headers", `{"headers":{"x-plan":"free"},"deny":{"status":400,"code":"a","message":"m"}}`, all, "", "&{test 400 a m 0} [{x-plan free}]"},

		{"deny not granted", `{"deny":{"status":429,"code":"quota",` + message + `}}`, none, FailureDeniedKey, "grants.deny"},
		{"header not granted", `{"headers":{"x-other":"1"}}`, all, FailureDeniedKey, "grants.headers"},
		{"headers not granted", `{"headers":{}}`, none, FailureDeniedKey, "grants.headers"},
		{"priority not granted", `{"priority":3}`, all, FailureDeniedKey, "grants.admission"},
		{"deadline not granted", `{"deadline_ms":3}`, all, FailureDeniedKey, "grants.admission"},
		{"priority with a fraction", `{"priority":1.5}`, Grants{Admission: true}, FailureBadResult, "whole number in -2147483648 … 2147483647"},
		{"priority beyond 32 bits", `{"priority":2147483648}`, Grants{Admission: true}, FailureBadResult, "whole number"},
		{"deadline in the past", `{"deadline_ms":-1}`, Grants{Admission: true}, FailureBadResult, "whole number in 0 … 4294967295"},
		{"deadline of another type", `{"deadline_ms":"3"}`, Grants{Admission: true}, FailureBadResult, "whole number"},
		{"fields", `{"fields":{}}`, all, FailureDeniedKey, "not for the hook request"},
		{"document", `{"document":{}}`, Grants{Rewrite: true}, FailureDeniedKey, "not for the hook request"},

		{"no status", `{"deny":{"code":"quota",` + message + `}}`, all, FailureBadResult, "needs status, code and message"},
		{"no code", `{"deny":{"status":429,` + message + `}}`, all, FailureBadResult, "needs status"},
		{"no message", `{"deny":{"status":429,"code":"quota"}}`, all, FailureBadResult, "needs status"},
		{"status of success", `{"deny":{"status":200,"code":"quota",` + message + `}}`, all, FailureBadResult, "400 … 599"},
		{"status with a fraction", `{"deny":{"status":429.0,"code":"quota",` + message + `}}`, all, FailureBadResult, "whole number"},
		{"status in a string", `{"deny":{"status":"429","code":"quota",` + message + `}}`, all, FailureBadResult, "whole number"},
		{"code for people", `{"deny":{"status":429,"code":"Too many!",` + message + `}}`, all, FailureBadResult, "a-z, 0-9 and _"},
		{"long code", `{"deny":{"status":429,"code":"` + strings.Repeat("a", 65) + `",` + message + `}}`, all, FailureBadResult, "at most 64"},
		{"long message", `{"deny":{"status":429,"code":"a","message":"` + strings.Repeat("a", 1025) + `"}}`, all, FailureBadResult, "at most 1024"},
		{"message of another type", `{"deny":{"status":429,"code":"a","message":5}}`, all, FailureBadResult, "it is a string"},
		{"waits for days", `{"deny":{"status":429,"code":"a","message":"m","retry_after":86401}}`, all, FailureBadResult, "0 … 86400"},
		{"unknown member", `{"deny":{"status":429,"code":"a","message":"m","why":1}}`, all, FailureBadResult, "unknown member"},
		{"twice", `{"deny":{"status":429,"status":400,"code":"a","message":"m"}}`, all, FailureBadResult, "duplicate"},
		{"deny of another type", `{"deny":429}`, all, FailureBadResult, "it is an object"},
		{"cut off", `{"deny":{"status":429`, all, FailureBadResult, "not strict JSON"},
		{"header with a line", `{"headers":{"x-plan":"a\r\nset-cookie: b"}}`, all, FailureBadResult, "printable ASCII"},
		{"header not ASCII", `{"headers":{"x-plan":"ü"}}`, all, FailureBadResult, "printable ASCII"},
		{"header in upper case", `{"headers":{"x-cost-EUR":"1"}}`, all, FailureBadResult, "in lower case"},
		{"long header", `{"headers":{"x-plan":"` + strings.Repeat("a", 1025) + `"}}`, all, FailureBadResult, "at most 1024"},
		{"header of another type", `{"headers":{"x-plan":5}}`, all, FailureBadResult, "it is a string"},
		{"many headers", `{"headers":{` + manyHeaders(17) + `}}`, all, FailureBadResult, "more than 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newBench(t).mustLoad(t, hookGuest(HookRequest, c.result), grant(c.grants))
			verdict, err := newChain(t, p).Request(context.Background(), &Frame{}, new(State))
			got := fmt.Sprint(verdict.Deny, verdict.Headers)
			if err != nil {
				got = err.Error()
			}
			if kind := failureOf(t, err); kind != c.kind || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want kind %q and %s", got, c.kind, c.want)
			}
		})
	}
}

// TestAdmission: of several plugins the last one that says it counts, one that
// fails says nothing, and each sees what those before it have said.
func TestAdmission(t *testing.T) {
	for _, c := range []struct {
		name    string
		results []string
		want    Admission
	}{
		{"nothing", []string{`{}`}, Admission{}},
		{"both", []string{`{"priority":-7,"deadline_ms":250}`}, Admission{Priority: -7, Ranked: true, DeadlineMS: 250}},
		{"the ends of the range", []string{`{"priority":-2147483648,"deadline_ms":4294967295}`}, Admission{Priority: -1 << 31, Ranked: true, DeadlineMS: 1<<32 - 1}},
		{"priority 0 is one", []string{`{"priority":0}`}, Admission{Ranked: true}},
		{"the last counts", []string{`{"priority":1,"deadline_ms":5}`, `{"priority":2}`}, Admission{Priority: 2, Ranked: true, DeadlineMS: 5}},
		{"no deadline after all", []string{`{"deadline_ms":5}`, `{"deadline_ms":0}`}, Admission{}},
		{"one fails", []string{`{"priority":1}`, `{"priority":2,"oops":1}`, `{"deadline_ms":3}`}, Admission{Priority: 1, Ranked: true, DeadlineMS: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			var plugins []*Plugin
			for i, result := range c.results {
				plugins = append(plugins, b.mustLoad(t, hookGuest(HookRequest, result), grant(Grants{Admission: true}), func(s *Spec) { s.Name, s.OnError = fmt.Sprint("p", i), Open }))
			}
			verdict, err := newChain(t, plugins...).Request(context.Background(), &Frame{Priority: 9}, new(State))
			if err != nil || verdict.Admission != c.want {
				t.Errorf("got %+v, %v, want %+v", verdict.Admission, err, c.want)
			}
		})
	}
	f := Frame{Priority: 9}
	(&Admission{DeadlineMS: 3}).show(&f)
	if f.Priority != 9 || f.DeadlineMS != 3 {
		t.Errorf("a deadline alone shows priority %d and deadline %d, want 9 and 3", f.Priority, f.DeadlineMS)
	}
	(&Admission{Priority: -1, Ranked: true}).show(&f)
	if f.Priority != -1 || f.DeadlineMS != 0 {
		t.Errorf("a priority alone shows priority %d and deadline %d, want -1 and 0", f.Priority, f.DeadlineMS)
	}
}

func manyHeaders(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"x-cost-%d":""`, i))
	}
	return strings.Join(list, ",")
}

// The first plugin that denies ends the chain; it and those behind it are not
// told of the end, those before it are.
func TestDenyEndsTheChain(t *testing.T) {
	const deny = `{"deny":{"status":403,"code":"no","message":"no"}}`
	both := func(name string, policy Policy, result string, body ...byte) *Plugin {
		g := hookGuest(HookRequest, result)
		if body != nil {
			g.with(exportRequest, body)
		}
		g.with(exportInit, opI32(int32(maskRequest|maskFinish)))
		g.functions = append(g.functions, guestFunction{exportFinish, exportRule(exportFinish), opI32(0)})
		return newBench(t).mustLoad(t, g, grant(Grants{Deny: true}), func(s *Spec) { s.Name, s.OnError = name, policy })
	}
	for _, c := range []struct {
		name            string
		second          *Plugin
		denied, fails   bool
		asked, finished string
	}{
		{"all pass", both("second", Closed, ``), false, false, "first second third ", "first second third "},
		{"second denies", both("second", Closed, deny), true, false, "first second ", "first "},
		{"second fails, open", both("second", Open, ``, opUnreachable...), false, false, "first second third ", "first second third "},
		{"second fails, null", both("second", Null, ``, opUnreachable...), false, false, "first second third ", "first second third "},
		{"second fails, closed", both("second", Closed, ``, opUnreachable...), false, true, "first second ", "first "},
	} {
		t.Run(c.name, func(t *testing.T) {
			plugins := []*Plugin{both("first", Closed, ``), c.second, both("third", Closed, ``)}
			asked, finished := "", ""
			for _, p := range plugins {
				p.host.observer = func(call Call) {
					if call.Hook == HookRequest {
						asked += call.Plugin + " "
					} else {
						finished += call.Plugin + " "
					}
				}
			}
			chain, state := newChain(t, plugins...), new(State)
			verdict, err := chain.Request(context.Background(), &Frame{}, state)
			if (verdict.Deny != nil) != c.denied || (err != nil) != c.fails {
				t.Errorf("got %+v, %v", verdict, err)
			}
			if verdict.Deny != nil && verdict.Deny.Plugin != "second" {
				t.Errorf("denied by %s", verdict.Deny.Plugin)
			}
			chain.Finish(context.Background(), &Frame{Outcome: OutcomeDenied}, state)
			if asked != c.asked || finished != c.finished {
				t.Errorf("asked %s, finished %s; want %s, %s", asked, finished, c.asked, c.finished)
			}
			state.Reset()
			finished = ""
			chain.Finish(context.Background(), &Frame{}, state)
			if finished != "first second third " {
				t.Errorf("after Reset: finished %s", finished)
			}
		})
	}
}

func TestShapeUsageAndHeaders(t *testing.T) {
	plug := func(name, result string, override bool, g Grants) *Plugin {
		return newBench(t).mustLoad(t, goodGuest(result), grant(g), func(s *Spec) { s.Name, s.Override = name, override })
	}
	cost := Grants{UsageExtend: []string{"cost", "x_*"}, Headers: []string{"x-cost"}}
	first := plug("first", `{"usage":{"cost":1,"x_a":{"b":[]}},"headers":{"x-cost":"1"}}`, false, cost)
	for _, c := range []struct {
		name    string
		later   *Plugin
		usage   string
		headers string
	}{
		{"alone", plug("p0", ``, false, Grants{}), `"cost":1,"x_a":{"b":[]}`, "[{x-cost 1}]"},
		{"others", plug("p1", `{"usage":{"y":2},"headers":{"x-y":"2"}}`, false, Grants{UsageExtend: []string{"y"}, Headers: []string{"x-y"}}),
			`"cost":1,"x_a":{"b":[]},"y":2`, "[{x-cost 1} {x-y 2}]"},
		{"override", plug("p2", `{"usage":{"cost":2},"headers":{"x-cost":"2"}}`, true, cost), `"x_a":{"b":[]},"cost":2`, "[{x-cost 2}]"},
	} {
		chain := newChain(t, first, c.later)
		shaped, err := chain.Shape(context.Background(), &Frame{}, new(State))
		if err != nil || string(shaped.Usage) != c.usage || fmt.Sprint(shaped.Headers) != c.headers {
			t.Errorf("%s: got %s, %v, %v; want %s, %s", c.name, shaped.Usage, shaped.Headers, err, c.usage, c.headers)
		}
	}
	for _, g := range []Grants{{UsageExtend: []string{"x_a"}}, {Headers: []string{"x-cost"}}} {
		if _, err := NewChain(first, plug("p3", ``, false, g)); err == nil || !strings.Contains(err.Error(), "may both write") {
			t.Errorf("the same grant twice: got %v", err)
		}
	}
	for result, want := range map[string]string{
		`{"usage":{"prompt_tokens":0}}`: "member of the API",
		`{"usage":{"other":0}}`:         "grants.usage_extend",
		`{"usage":[]}`:                  "usage is something else",
	} {
		_, err := newChain(t, plug("p4", result, false, cost)).Shape(context.Background(), &Frame{}, new(State))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", result, err, want)
		}
	}
}

func TestRewrite(t *testing.T) {
	const original = `{"id":"a","choices":[{"text":"secret"}],"usage":{"prompt_tokens":5}}`
	const event = `{"type":"response.completed","response":{"id":"a","usage":{"input_tokens":5}}}`
	answer := func(document string) string { return `{"document":` + document + `}` }
	nested := `{"id":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`
	for _, c := range []struct {
		name, original, result string
		kind                   FailureKind
		want                   string
	}{
		{"nothing", original, ``, "", ""},
		{"other text", original, answer(`{"id":"a","choices":[{"text":"***"}],"usage":{"prompt_tokens":5}}`), "", `"***"`},
		{"a member less", original, answer(`{"id":"a","usage":{"prompt_tokens":5}}`), "", `{"id":"a","usage"`},
		{"deep", `{"id":1}`, answer(nested), "", nested},
		{"too deep", `{"id":1}`, answer(`{"id":[` + nested + `]}`), FailureBadResult, "deeper than 128"},
		{"longer", original, answer(`{"id":"` + strings.Repeat("a", 60<<10) + `","usage":{"prompt_tokens":5}}`), "", "aaaa"},
		{"too long", original, answer(`{"id":"` + strings.Repeat("a", 70<<10) + `","usage":{"prompt_tokens":5}}`), FailureBadResult, "at most"},
		{"other usage", original, answer(`{"id":"a","usage":{"prompt_tokens":4}}`), FailureDeniedKey, "stays exact"},
		{"no usage", original, answer(`{"id":"a"}`), FailureDeniedKey, "stays exact"},
		{"usage out of nowhere", `{"id":"a"}`, answer(`{"id":"a","usage":{}}`), FailureDeniedKey, "which the answer has not"},
		{"usage in disguise", original, answer(`{"id":"a","us\u0061ge":{"prompt_tokens":4}}`), FailureDeniedKey, "which the answer has not"},
		{"a member more", original, answer(`{"id":"a","usage":{"prompt_tokens":5},"metrics":1}`), FailureDeniedKey, "use fields"},
		{"usage of an event", event, answer(`{"type":"response.completed","response":{"id":"a","usage":{"input_tokens":4}}}`), FailureDeniedKey, "response.usage"},
		{"an event", event, answer(`{"type":"response.completed","response":{"id":"b","usage":{"input_tokens":5}}}`), "", `"id":"b"`},
		{"duplicate", original, answer(`{"id":"a","id":"b","usage":{"prompt_tokens":5}}`), FailureBadResult, "duplicate"},
		{"not an object", original, answer(`[]`), FailureBadResult, "it is an object"},
		{"nothing to replace", ``, answer(`{}`), FailureDeniedKey, "there is none"},
	} {
		for _, hook := range []Hook{HookShape, HookChunk} {
			t.Run(c.name+" in "+hook.String(), func(t *testing.T) {
				g := hookGuest(hook, c.result)
				g.memory = []byte{0x00, 0x08}
				p := newBench(t).mustLoad(t, g, grant(Grants{Rewrite: true, ReadResponse: true}))
				chain, frame := newChain(t, p), &Frame{Document: []byte(c.original)}
				if !chain.WantsDocument(hook) || chain.WantsDocument(HookRequest) {
					t.Error("a plugin that may rewrite needs the document")
				}
				var got []byte
				var err error
				if hook == HookShape {
					var shaped Shaped
					shaped, err = chain.Shape(context.Background(), frame, new(State))
					if got = shaped.Document; (got != nil) != (shaped.Rewriter == "test") {
						t.Errorf("rewritten by %q: %s", shaped.Rewriter, got)
					}
				} else if got, err = chain.Chunk(context.Background(), &Frame{}, new(State), frame.Document); err == nil && c.result == "" {
					if string(got) != c.original {
						t.Errorf("got %s, want the chunk as it was", got)
					}
					got = nil
				}
				text := string(got)
				if err != nil {
					text = err.Error()
				}
				if kind := failureOf(t, err); kind != c.kind || !strings.Contains(text, c.want) {
					t.Errorf("got %.200s, want kind %q and %.200s", text, c.kind, c.want)
				}
			})
		}
	}
}

// Each plugin of a chain is handed what the one before it has made.
func TestChunksGoFromPluginToPlugin(t *testing.T) {
	rewriter := func(name, document string) *Plugin {
		return newBench(t).mustLoad(t, hookGuest(HookChunk, `{"document":`+document+`}`),
			grant(Grants{Rewrite: true, ReadResponse: true}), func(s *Spec) { s.Name, s.OnError = name, Open })
	}
	first, second := rewriter("first", `{"a":1}`), rewriter("second", `{"a":2,"b":3}`)
	chunk := []byte(`{"a":0,"b":0}`)
	got, err := newChain(t, first).Chunk(context.Background(), &Frame{}, new(State), chunk)
	if string(got) != `{"a":1}` || err != nil {
		t.Errorf("one plugin: got %s, %v", got, err)
	}
	// What the second adds is no member of what the first has left.
	both := newChain(t, first, second)
	if names := fmt.Sprint(both.Names(HookChunk), both.Names(HookFinish)); names != "[first second] []" {
		t.Errorf("got the names %s", names)
	}
	got, err = both.Chunk(context.Background(), &Frame{}, new(State), chunk)
	if string(got) != `{"a":1}` || err != nil {
		t.Errorf("two plugins: got %s, %v", got, err)
	}
	in, _ := second.pool.take(context.Background())
	defer second.pool.put(in)
	seen := (&Frame{Document: []byte(`{"a":1}`), ChainID: both.ID()}).append(nil, HookChunk, maskResponseBody)
	if got, _ := in.memory.Read(guestBufferAt, uint32(len(seen))); !bytes.Equal(got, seen) {
		t.Errorf("the second was handed\n% x, want\n% x", got, seen)
	}
}

func TestCarry(t *testing.T) {
	g := hookGuest(HookRequest, `{"carry":"a\u00e9\"b"}`)
	g.with(exportInit, opI32(int32(maskRequest|maskShape|maskFinish)))
	g.functions = append(g.functions, guestFunction{exportFinish, exportRule(exportFinish), opI32(0)})
	carries := newBench(t).mustLoad(t, g, func(s *Spec) { s.Name = "carries" })
	other := newBench(t).mustLoad(t, goodGuest(``), grant(Grants{}))
	chain, state, ctx := newChain(t, other, carries), new(State), context.Background()
	frame := &Frame{Model: "m", Carry: "not the plugin's"}
	if _, err := chain.Request(ctx, frame, state); err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Shape(ctx, frame, state); err != nil {
		t.Fatal(err)
	}
	for p, carry := range map[*Plugin]string{other: "", carries: `aé"b`} {
		in, _ := p.pool.take(context.Background())
		want := (&Frame{Model: "m", Carry: carry, ChainID: chain.ID()}).append(nil, HookShape, 0)
		if got, _ := in.memory.Read(guestBufferAt, uint32(len(want))); !bytes.Equal(got, want) {
			t.Errorf("%s was handed\n% x, want\n% x", p.name, got, want)
		}
		p.pool.put(in)
	}
	if chain.Finish(ctx, frame, state); state.Carry(1) != `aé"b` || state.Carry(0) != "" {
		t.Errorf("after finish the carries are %q", state.carries)
	}
	if state.Reset(); state.Carry(1) != "" {
		t.Errorf("a new request has the carry %q", state.Carry(1))
	}
}

// Documents need their grant, and with it no way out.
func TestDocumentsNeedGrants(t *testing.T) {
	read := Grants{ReadRequest: true, ReadResponse: true}
	egress := read
	egress.ContentEgress = true
	emits, writes := read, read
	emits.Emit, writes.KVWrite = true, true
	request := func(m mask) *guest { return hookGuest(HookRequest, ``).with(exportInit, opI32(int32(m))) }
	for _, c := range []struct {
		name   string
		guest  *guest
		grants Grants
		want   string
	}{
		{"request document", request(maskRequest | maskRequestBody), Grants{}, "grants.read.request"},
		{"response document", request(maskShape | maskResponseBody), Grants{}, "grants.read.response"},
		{"both", request(maskRequest | maskRequestBody | maskResponseBody), read, ""},
		{"chunk", hookGuest(HookChunk, ``), Grants{Rewrite: true}, "grants.read.response"},
		{"chunk to read", hookGuest(HookChunk, ``), read, "grants.rewrite"},
		{"log", request(maskRequest).importing(importModule, "log", signature{"iii", ""}), read, "grants.content_egress"},
		{"log, and it may", request(maskRequest).importing(importModule, "log", signature{"iii", ""}), egress, ""},
		{"emit", request(maskRequest).importing(importModule, "emit", signature{"iii", "i"}), emits, "grants.content_egress"},
		{"kv_set", request(maskRequest).importing(importModule, "kv_set", signature{"iiiii", "i"}), writes, "grants.content_egress"},
		{"kv_add", request(maskRequest).importing(importModule, "kv_add", signature{"iiIi", "I"}), writes, "grants.content_egress"},
	} {
		_, err := newBench(t).load(t, c.guest.assemble(), grant(c.grants))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// What a plugin that reads bodies writes to stderr stays inside.
func TestConfinedStderr(t *testing.T) {
	// fd_write(2, one vector at 512 of 6 bytes at guestResultAt)
	say := code(
		opI32(512), opI32(guestResultAt), []byte{0x36, 0x02, 0x00}, opI32(516), opI32(6), []byte{0x36, 0x02, 0x00},
		opI32(2), opI32(512), opI32(1), opI32(520), opCall(0), opDrop)
	for _, egress := range []bool{false, true} {
		g := hookGuest(HookRequest, "").importing(wasiModule, "fd_write", signature{"iiii", "i"}).with(exportRequest, code(say, opI64(0)))
		g.data = []guestData{{guestResultAt, "prompt"}}
		b := newBench(t)
		p := b.mustLoad(t, g, grant(Grants{ReadRequest: true, ContentEgress: egress}))
		if _, err := newChain(t, p).Request(context.Background(), &Frame{}, new(State)); err != nil {
			t.Fatal(err)
		}
		if logged := b.logged.String(); strings.Contains(logged, "text=prompt") != egress || strings.Contains(logged, "not shown") == egress {
			t.Errorf("content_egress %v: the log has %s", egress, logged)
		}
	}
}

func TestFinish(t *testing.T) {
	for _, c := range []struct {
		name string
		body []byte
		kind FailureKind
	}{
		{"success", opI32(0), ""},
		{"status", opI32(7), FailureBadResult},
		{"trap", opUnreachable, FailureTrap},
	} {
		finisher := newBench(t).mustLoad(t, hookGuest(HookFinish, "").with(exportFinish, c.body))
		last := newBench(t).mustLoad(t, emitter(1, `{"a":1}`, opI32(0)), grant(Grants{Emit: true}), func(s *Spec) { s.Name = "last" })
		finished := newChain(t, finisher, last).Finish(context.Background(), &Frame{}, new(State))
		if got := len(finished.Failed); got != 0 != (c.kind != "") || got == 1 && (finished.Failed[0].Kind != c.kind || finished.Failed[0].Plugin != "test") {
			t.Errorf("%s: got %v, want kind %q", c.name, finished.Failed, c.kind)
		}
		if len(finished.Records) != 1 || finished.Records[0].Plugin != "last" {
			t.Errorf("%s: got %+v, want the last plugin's record", c.name, finished.Records)
		}
	}
}

// emitter emits data so many times in its finish, and ends with the
// instructions end.
func emitter(times int, data string, end []byte) *guest {
	g := hookGuest(HookFinish, "").importing(importModule, "emit", signature{"iii", "i"})
	g.data = []guestData{{guestResultAt, data}}
	emit := code(opI32(7), opI32(guestResultAt), opI32(int32(len(data))), opCall(0), opDrop)
	return g.with(exportFinish, code(bytes.Repeat(emit, times), end))
}

// A failing finish gives no records; what it emits well comes with its index.
func TestEmit(t *testing.T) {
	for _, c := range []struct {
		name  string
		guest *guest
		want  []string
	}{
		{"two", emitter(2, `{"cost":12}`, opI32(0)), []string{`{test 0 7 {"cost":12} 0}`, `{test 1 7 {"cost":12} 0}`}},
		{"then a trap", emitter(2, `{"cost":12}`, opUnreachable), nil},
		{"then a status", emitter(2, `{"cost":12}`, opI32(1)), nil},
		{"too many", emitter(maxRecords+1, `{}`, opI32(0)), slices.Repeat([]string{"{}"}, maxRecords)},
		{"not JSON", emitter(1, `{"cost":NaN}`, opI32(0)), nil},
		{"not an object", emitter(1, `12`, opI32(0)), nil},
		{"duplicate key", emitter(1, `{"a":1,"a":2}`, opI32(0)), nil},
		{"too large", emitter(1, `{"a":"`+strings.Repeat("a", maxRecordBytes)+`"}`, opI32(0)), nil},
		{"in another hook", emitter(0, ``, opI32(0)).with(exportInit, opI32(int32(maskShape|maskFinish))).
			with(exportShape, code(opI32(7), opI32(guestResultAt), opI32(0), opCall(0), opDrop, opI64(0))), nil},
	} {
		p := newBench(t).mustLoad(t, c.guest, grant(Grants{Emit: true}))
		chain, state := newChain(t, p), new(State)
		if _, err := chain.Shape(context.Background(), &Frame{}, state); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same again: nothing is left of the first
			finished := chain.Finish(context.Background(), &Frame{}, state)
			if len(finished.Records) != len(c.want) {
				t.Fatalf("%s: got %d records, want %d", c.name, len(finished.Records), len(c.want))
			}
			for i, r := range finished.Records {
				if got := fmt.Sprintf("{%s %d %d %s %d}", r.Plugin, r.Index, r.Kind, r.Data, r.ClockUnixNS); !strings.Contains(got, c.want[i]) {
					t.Errorf("%s: record %d is %s, want %s", c.name, i, got, c.want[i])
				}
			}
		}
	}
}
