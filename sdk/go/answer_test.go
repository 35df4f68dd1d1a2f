package wasmeter

import (
	"encoding/json"
	"testing"
)

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*Answer)
		want  string
	}{
		{"nothing", func(*Answer) {}, ``},
		{"fields", func(a *Answer) { a.Fields.Object("a").Int("b", 1) }, `{"fields":{"a":{"b":1}}}`},
		{"usage alone", func(a *Answer) { a.Usage.Int("cost", 1) }, `{"usage":{"cost":1}}`},
		{"carry alone", func(a *Answer) { a.Carry("\"c\"") }, `{"carry":"\"c\""}`},
		{"deny", func(a *Answer) { a.Deny(429, "quota", "later", 2) }, `{"deny":{"status":429,"code":"quota","message":"later","retry_after":2}}`},
		{"deny for good", func(a *Answer) { a.Deny(403, "no", "no", 0) }, `{"deny":{"status":403,"code":"no","message":"no"}}`},
		{"priority and deadline", func(a *Answer) { a.Priority(-1); a.DeadlineMS(7) }, `{"priority":-1,"deadline_ms":7}`},
		{"everything", func(a *Answer) {
			a.Replace([]byte(`{"id":1}`))
			a.Headers.Str("x-a", "1")
			a.Usage.Int("cost", 1)
			a.Fields.Null("m")
		}, `{"fields":{"m":null},"usage":{"cost":1},"headers":{"x-a":"1"},"document":{"id":1}}`},
	} {
		var a Answer
		for range 2 { // the second time with the memory of the first
			a.reset()
			c.write(&a)
			got := string(a.AppendTo([]byte("before ")))
			if got != "before "+c.want || c.want != "" && !json.Valid([]byte(c.want)) {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// Outside a server a hook's calls land in Outside.
func TestOutside(t *testing.T) {
	t.Cleanup(func() { Outside.Records, Outside.KV, Outside.NowUnixNS = nil, nil, 0 })
	var record JSON
	record.Str("tenant", "acme").Object("open")
	if err := Emit(1, &record); err != nil || len(Outside.Records) != 1 || Outside.Records[0] != `{"tenant":"acme","open":{}}` {
		t.Errorf("got %v, %q", err, Outside.Records)
	}
	if _, err := KVGet("a"); err != Unavailable {
		t.Errorf("without a store: got %v", err)
	}
	if _, err := KVAdd("a", 1, 0); err != Unavailable {
		t.Errorf("without a store: got %v", err)
	}
	Outside.KV, Outside.NowUnixNS = map[string][]byte{"long": make([]byte, 300)}, 5
	if _, err := KVGet("a"); err != Absent {
		t.Errorf("no value: got %v", err)
	}
	if value, err := KVGet("long"); len(value) != 300 || err != nil {
		t.Errorf("a long value: got %d bytes, %v", len(value), err)
	}
	for _, add := range []struct{ delta, sum int64 }{{5, 5}, {-7, -2}} {
		if sum, err := KVAdd("n", add.delta, 0); sum != add.sum || err != nil {
			t.Errorf("got %d, %v; want %d", sum, err, add.sum)
		}
	}
	if _, err := KVAdd("long", 1, 0); err != DeniedCall {
		t.Errorf("no counter: got %v", err)
	}
	if err := KVSet("a", []byte("v"), 1); err != nil || string(Outside.KV["a"]) != "v" {
		t.Errorf("set: %v, %q", err, Outside.KV["a"])
	}
	if NowUnixNS() != 5 || MetricAdd(0, 0, 1) != nil || MetricObserve(0, 0, 1) != nil {
		t.Error("the clock or the metrics are missing")
	}
	for code, want := range map[HostError]string{Absent: "absent", DeniedCall: "denied", TooLarge: "too large", BadPointer: "bad pointer", Quota: "quota", Unavailable: "unavailable"} {
		if code.Error() != want {
			t.Errorf("%d is %q, want %q", code, code.Error(), want)
		}
	}
}
