package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// at is a moment of 2026-11-29.
func at(clock string) uint64 {
	moment, err := time.Parse("15:04:05.999999999", clock)
	if err != nil {
		panic(err)
	}
	return uint64(time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC).Add(moment.Sub(moment.Truncate(24 * time.Hour))).UnixNano())
}

// asked is a chat request for 20 tokens with a prompt of 30.
func asked(tenant, clock string) *plugin.Frame {
	return &plugin.Frame{
		Endpoint: plugin.EndpointChat, N: 1, Prompts: 1, ArrivalUnixNS: at(clock), PromptTokens: 30, MaxTokens: 20,
		Tenant: tenant, KeyName: "k1", Model: "m",
	}
}

// ended is the frame of a request at its end.
func ended(f *plugin.Frame, outcome plugin.Outcome, completion uint32, after time.Duration, carry string) *plugin.Frame {
	end := *f
	end.Outcome, end.CompletionTokens, end.FinishedNS, end.ScheduledNS, end.Carry = outcome, completion, uint64(after), 1, carry
	return &end
}

// bench is a plugin on the test's own keys.
type bench struct {
	t *testing.T
	config
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	b := &bench{t: t, config: defaults()}
	if err := b.read([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	wasmeter.Outside.KV = map[string][]byte{}
	t.Cleanup(func() { wasmeter.Outside.KV = nil })
	return b
}

// verdict is what a request hook answers.
type verdict struct {
	Carry   string
	Headers map[string]string
	Deny    *struct {
		Status     int
		Code       string
		Message    string
		RetryAfter int `json:"retry_after"`
	}
}

func (b *bench) ask(f *plugin.Frame) (v verdict) {
	b.t.Helper()
	text := plugintest.Native(plugin.HookRequest, b.request, f)
	if text == "" {
		return verdict{}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		b.t.Fatalf("%v in %s", err, text)
	}
	return v
}

func (b *bench) end(f *plugin.Frame) {
	b.t.Helper()
	if err := b.finish(wasmeter.NewRequest(f.Append(nil, plugin.HookFinish))); err != nil {
		b.t.Fatal(err)
	}
}

// counts are the values of all keys.
func counts() map[string]int64 {
	all := map[string]int64{}
	for key, value := range wasmeter.Outside.KV {
		all[key] = int64(binary.LittleEndian.Uint64(value))
	}
	return all
}

func (b *bench) want(what string, want map[string]int64) {
	b.t.Helper()
	if got := counts(); !maps.Equal(got, want) {
		b.t.Errorf("%s: the counts are %v, want %v", what, got, want)
	}
}

const hundredAMinute = `{"headers":true,"classes":[{"name":"free","tenants":["acme"],"limits":[{"window":"minute","tokens":100}]}]}`

// minuteKey is the count of the minute that begins at 10:20.
var minuteKey = fmt.Sprintf("free tenant minute %d acme", at("10:20:00")/1e9)

// TestLife: a request sets aside what it may use, and gives back what it has not.
func TestLife(t *testing.T) {
	b := newBench(t, hundredAMinute)
	first := asked("acme", "10:20:30.25")
	v := b.ask(first)
	if v.Deny != nil || v.Carry != "50" || fmt.Sprint(v.Headers) != "map[x-quota-limit:100 x-quota-remaining:50 x-quota-reset:30]" {
		t.Errorf("the first: got %+v", v)
	}
	b.want("set aside", map[string]int64{minuteKey: 50})
	if v := b.ask(asked("acme", "10:20:31")); v.Deny != nil || v.Headers["x-quota-remaining"] != "0" || v.Headers["x-quota-reset"] != "29" {
		t.Errorf("the second fills the limit exactly: got %+v", v)
	}
	v = b.ask(asked("acme", "10:20:59.999999999"))
	const message = "quota exceeded: 100 tokens per minute for tenant acme; 100 are used or set aside, this request needs up to 50; the minute ends in 1 s"
	if v.Deny == nil || v.Deny.Status != 429 || v.Deny.Code != "quota_exceeded" || v.Deny.RetryAfter != 1 || v.Deny.Message != message || v.Carry != "" {
		t.Errorf("the third: got %+v", v)
	}
	if fmt.Sprint(v.Headers) != "map[x-quota-limit:100 x-quota-remaining:0 x-quota-reset:1]" {
		t.Errorf("the third: got %+v", v.Headers)
	}
	b.want("a refusal takes nothing", map[string]int64{minuteKey: 100})
	b.end(ended(first, plugin.OutcomeStop, 7, time.Second, "50"))
	b.want("37 of 50 were used", map[string]int64{minuteKey: 87})
	small := asked("acme", "10:20:40")
	small.PromptTokens, small.MaxTokens = 10, 3
	if v := b.ask(small); v.Deny != nil {
		t.Errorf("13 of 13: got %+v", v.Deny)
	}
	if v := b.ask(asked("acme", "10:21:00")); v.Deny != nil || v.Headers["x-quota-remaining"] != "50" || v.Headers["x-quota-reset"] != "60" {
		t.Errorf("the next minute: got %+v", v)
	}
	if v := b.ask(asked("other", "10:20:40")); v.Deny != nil || v.Headers != nil || v.Carry != "" {
		t.Errorf("a tenant without a limit: got %+v", v)
	}
}

// TestEnds: what each end counts for.
func TestEnds(t *testing.T) {
	const prefix = `{"classes":[{"name":"free","tenants":["acme"],"limits":[{"window":"minute","tokens":100}]}]`
	for _, c := range []struct {
		name, more string
		outcome    plugin.Outcome
		change     func(*plugin.Frame)
		want       int64
	}{
		{"stop", "", plugin.OutcomeStop, nil, 37},
		{"length", "", plugin.OutcomeLength, nil, 37},
		{"the client left", "", plugin.OutcomeClientAbort, nil, 37},
		{"the client left the queue", "", plugin.OutcomeClientAbort, func(f *plugin.Frame) { f.ScheduledNS, f.CompletionTokens = 0, 0 }, 0},
		{"the queue was full", "", plugin.OutcomeRejected, func(f *plugin.Frame) { f.ScheduledNS, f.CompletionTokens = 0, 0 }, 0},
		{"another plugin denied it", "", plugin.OutcomeDenied, nil, 0},
		{"the server failed", "", plugin.OutcomeServerError, nil, 0},
		{"a plugin failed", "", plugin.OutcomePluginError, nil, 0},
		{"the server failed, and it counts", `,"count_failed":true`, plugin.OutcomeServerError, nil, 37},
		{"prompt", `,"count":"prompt"`, plugin.OutcomeStop, nil, 30},
		{"completion", `,"count":"completion"`, plugin.OutcomeStop, nil, 7},
		{"nothing was carried", "", plugin.OutcomeStop, func(f *plugin.Frame) { f.Carry = "" }, 37 + 50},
		{"finished again", "", plugin.OutcomeStop, func(f *plugin.Frame) { f.Carry, f.Flags = "", plugin.FlagReplay }, 37},
		{"more than was set aside", "", plugin.OutcomeStop, func(f *plugin.Frame) { f.CompletionTokens = 200 }, 230},
		{"its minute is over", "", plugin.OutcomeStop, func(f *plugin.Frame) { f.FinishedNS = uint64(30 * time.Second) }, 50},
		{"its minute is nearly over", "", plugin.OutcomeStop, func(f *plugin.Frame) { f.FinishedNS = uint64(30*time.Second) - 1 }, 37},
	} {
		b := newBench(t, prefix+c.more+"}")
		frame := asked("acme", "10:20:30")
		v := b.ask(frame)
		if v.Deny != nil {
			t.Fatalf("%s: %+v", c.name, v.Deny)
		}
		end := ended(frame, c.outcome, 7, time.Second, v.Carry)
		if c.change != nil {
			c.change(end)
		}
		b.end(end)
		b.want(c.name, map[string]int64{minuteKey: c.want})
	}
}

// TestLimits: several limits, whose they are, and which one a client is told of.
func TestLimits(t *testing.T) {
	b := newBench(t, `{"headers":true,"assumed_completion_tokens":70,"classes":[
		{"name":"free","tenants":["f-*"],"limits":[
			{"window":"minute","tokens":100},{"window":"day","tokens":130},{"window":"hour","tokens":1000,"per":"key"},
			{"window":"month","tokens":200,"per":"model"},{"window":"month","tokens":160,"per":"class"}]},
		{"name":"staff","key_names":["staff"],"limits":[]}],
		"default":{"limits":[{"window":"hour","tokens":60}]}}`)
	if v := b.ask(asked("f-a", "10:20:30")); v.Deny != nil || v.Headers["x-quota-limit"] != "100" {
		t.Errorf("the first: got %+v", v)
	}
	b.want("each count", map[string]int64{
		fmt.Sprintf("free tenant minute %d f-a", at("10:20:00")/1e9):              50,
		fmt.Sprintf("free tenant day %d f-a", at("00:00:00")/1e9):                 50,
		fmt.Sprintf("free key hour %d f-a k1", at("10:00:00")/1e9):                50,
		fmt.Sprintf("free model month %d f-a m", (at("00:00:00")/1e9 - 28*86400)): 50,
		fmt.Sprintf("free class month %d", (at("00:00:00")/1e9 - 28*86400)):       50,
	})
	if v := b.ask(asked("f-a", "10:21:30")); v.Deny != nil || v.Headers["x-quota-limit"] != "130" || v.Headers["x-quota-remaining"] != "30" {
		t.Errorf("a minute later the day is nearest: got %+v", v)
	}
	// The minute has room for 50, the day for 30, the class's month for 60.
	if v := b.ask(asked("f-a", "10:21:31")); v.Deny == nil || v.Deny.RetryAfter != 13*3600+38*60+29 || !strings.Contains(v.Deny.Message, "130 tokens per day for tenant f-a; 100 are") {
		t.Errorf("the day: got %+v", v.Deny)
	}
	if v := b.ask(asked("f-b", "10:22:00")); v.Deny != nil {
		t.Errorf("the last that the class has room for: got %+v", v.Deny)
	}
	// Both the day and the class's month refuse; the month ends later, and beyond
	// what retry_after can say.
	v := b.ask(asked("f-a", "10:22:00"))
	if v.Deny == nil || v.Deny.RetryAfter != 86_400 || !strings.Contains(v.Deny.Message, "160 tokens per month for the class free; 150 are") {
		t.Errorf("the month: got %+v", v.Deny)
	}
	// From 10:22 on the 29th to the end of the 30th.
	if want := fmt.Sprint(2*86_400 - 10*3_600 - 22*60); v.Headers["x-quota-reset"] != want {
		t.Errorf("the month ends in %s s, want %s", v.Headers["x-quota-reset"], want)
	}
	staff := asked("acme", "10:22:00")
	staff.KeyName = "staff"
	if v := b.ask(staff); v.Deny != nil || v.Headers != nil {
		t.Errorf("a class without limits: got %+v", v)
	}
	if v := b.ask(asked("", "10:22:00")); v.Deny != nil || v.Headers["x-quota-remaining"] != "10" {
		t.Errorf("the default: got %+v", v)
	}
	if v := b.ask(asked("", "10:22:00")); v.Deny == nil || !strings.Contains(v.Deny.Message, "for requests without a key") {
		t.Errorf("the default is used: got %+v", v)
	}
}

// TestTooLarge: what no window has room for is refused for good.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		count, want string
		change      func(*plugin.Frame)
	}{
		{"total", "", func(f *plugin.Frame) { f.MaxTokens = 70 }},
		{"total", "needs up to 101 tokens, more than a whole minute allows: 100 tokens per minute for tenant acme; ask for fewer than 71 tokens", func(f *plugin.Frame) { f.MaxTokens = 71 }},
		{"total", "needs up to 110", func(f *plugin.Frame) { f.N = 4 }},
		{"completion", "", func(f *plugin.Frame) { f.N, f.PromptTokens = 5, 1000 }},
		{"completion", "needs up to 120 tokens, more than a whole minute allows: 100 completion tokens per", func(f *plugin.Frame) { f.Prompts, f.N = 3, 2 }},
		{"total", "needs up to 1054 tokens, more than a whole minute allows: 100 tokens per minute for tenant acme; ask for a number of tokens, since without one 1024 are set aside", func(f *plugin.Frame) { f.MaxTokens = 0 }},
		{"prompt", "", func(f *plugin.Frame) { f.MaxTokens, f.PromptTokens = 0, 100 }},
		{"prompt", "100 prompt tokens per minute for tenant acme; send a shorter prompt", func(f *plugin.Frame) { f.PromptTokens = 101 }},
		{"total", "needs up to 18446181128051228670 tokens", func(f *plugin.Frame) {
			f.N, f.Prompts, f.MaxTokens, f.PromptTokens = 1<<16-1, 1<<16-1, 1<<32-1, 1<<32-1
		}},
	} {
		b := newBench(t, `{"count":"`+c.count+`","default":{"limits":[{"window":"minute","tokens":100}]}}`)
		frame := asked("acme", "10:20:30")
		c.change(frame)
		v := b.ask(frame)
		if (v.Deny == nil) != (c.want == "") || v.Deny != nil && (v.Deny.Status != 400 || v.Deny.Code != "quota_request_too_large" || v.Deny.RetryAfter != 0 || !strings.Contains(v.Deny.Message, c.want)) {
			t.Errorf("%s, n %d, prompts %d, %d + %d tokens: got %+v, want %q", c.count, frame.N, frame.Prompts, frame.PromptTokens, frame.MaxTokens, v.Deny, c.want)
		}
		if v.Deny != nil && len(counts()) != 0 {
			t.Errorf("a refusal leaves %v", counts())
		}
	}
}

// TestUnavailable: counts that can't be reached let requests pass, or not.
func TestUnavailable(t *testing.T) {
	for _, strict := range []bool{false, true} {
		b := newBench(t, fmt.Sprintf(`{"strict":%v,"default":{"limits":[{"window":"minute","tokens":100}]}}`, strict))
		wasmeter.Outside.KV = nil
		frame := asked("acme", "10:20:30")
		v := b.ask(frame)
		if (v.Deny != nil) != strict || strict && (v.Deny.Status != 503 || v.Deny.Code != "quota_unavailable" || v.Deny.RetryAfter != 1) || v.Carry != "" {
			t.Errorf("strict %v: got %+v", strict, v)
		}
		if err := b.finish(wasmeter.NewRequest(ended(frame, plugin.OutcomeStop, 7, 0, "").Append(nil, plugin.HookFinish))); err == nil {
			t.Error("what can't be counted is not finished")
		}
	}
}

// TestModel: any order of requests and ends keeps the counts that a plain model
// keeps, and no window is ever beyond its limit.
func TestModel(t *testing.T) {
	const perMinute, perHour = 300, 2_000
	b := newBench(t, `{"default":{"limits":[{"window":"minute","tokens":300},{"window":"hour","tokens":2000}]}}`)
	r := rand.New(rand.NewPCG(7, 7))
	type open struct {
		frame *plugin.Frame
		carry string
	}
	var running []open
	model, clock := map[string]int64{}, at("10:00:00")
	keys := func(f *plugin.Frame) []string {
		s := f.ArrivalUnixNS / 1e9
		return []string{fmt.Sprintf("default tenant minute %d %s", s-s%60, f.Tenant), fmt.Sprintf("default tenant hour %d %s", s-s%3600, f.Tenant)}
	}
	passed, refused := 0, 0
	for range 20_000 {
		clock += r.Uint64N(3e9)
		if len(running) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(running))
			o := running[i]
			running = append(running[:i], running[i+1:]...)
			completion := r.Uint32N(o.frame.MaxTokens + 1)
			after := time.Duration(clock - o.frame.ArrivalUnixNS)
			b.end(ended(o.frame, plugin.OutcomeStop, completion, after, o.carry))
			for j, length := range []uint64{60, 3600} {
				if s := o.frame.ArrivalUnixNS / 1e9; clock/1e9 < s-s%length+length {
					model[keys(o.frame)[j]] += int64(completion) - int64(o.frame.MaxTokens)
				}
			}
			continue
		}
		frame := &plugin.Frame{N: 1, Prompts: 1, Tenant: string(rune('a' + r.IntN(3))), ArrivalUnixNS: clock, PromptTokens: r.Uint32N(50), MaxTokens: 1 + r.Uint32N(100)}
		need := int64(frame.PromptTokens + frame.MaxTokens)
		k := keys(frame)
		fits := model[k[0]]+need <= perMinute && model[k[1]]+need <= perHour
		v := b.ask(frame)
		if (v.Deny == nil) != fits {
			t.Fatalf("%d more of %d and %d: got %+v, want it to fit: %v", need, model[k[0]], model[k[1]], v.Deny, fits)
		}
		if !fits {
			refused++
			continue
		}
		passed++
		model[k[0]] += need
		model[k[1]] += need
		running = append(running, open{frame, v.Carry})
	}
	maps.DeleteFunc(wasmeter.Outside.KV, func(key string, _ []byte) bool { _, known := model[key]; return !known && counts()[key] == 0 })
	for key, n := range model {
		if got := counts()[key]; got != n {
			t.Fatalf("%s is %d, want %d", key, got, n)
		}
	}
	if passed < 1000 || refused < 1000 {
		t.Errorf("%d passed and %d were refused; the test wants many of both", passed, refused)
	}
}

// A message stays within what the ABI takes.
func TestLongNames(t *testing.T) {
	b := newBench(t, `{"default":{"limits":[{"window":"minute","tokens":50,"per":"model"}]}}`)
	frame := asked("acme", "10:20:30")
	frame.Model = strings.Repeat("m", 3000)
	b.ask(frame)
	if v := b.ask(frame); v.Deny == nil || len(v.Deny.Message) > 1024 {
		t.Errorf("got %+v", v)
	}
}

func FuzzRequest(f *testing.F) {
	o := defaults()
	const config = `{"headers":true,"default":{"limits":[{"window":"minute","tokens":60,"per":"key"},{"window":"month","tokens":100,"per":"model"}]}}`
	if err := o.read([]byte(config)); err != nil {
		f.Fatal(err)
	}
	plugintest.FuzzHook(f, plugin.HookRequest, o.request, asked("acme", "10:20:30"))
}
