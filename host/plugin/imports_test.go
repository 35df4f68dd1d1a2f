package plugin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

// imports runs the functions of module wasmeter_v1 on the memory of an idle
// instance, in a hook.
type imports struct {
	t  *testing.T
	in *instance
}

func newImports(t *testing.T, hook Hook, adjust ...func(*Spec)) *imports {
	p := newBench(t).mustLoad(t, goodGuest("{}"), adjust...)
	in, err := p.pool.take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.pool.put(in) })
	in.hook = hook
	return &imports{t, in}
}

func (i *imports) call(name string, args ...uint64) int64 {
	i.t.Helper()
	stack := append(args, 0)
	abiFunctions[name](context.Background(), i.in, stack)
	if name == "kv_add" || name == "now_unix_ns" {
		return int64(stack[0])
	}
	return int64(int32(stack[0]))
}

// put writes text into the guest's memory and gives its address and length.
func (i *imports) put(at uint32, text string) (uint64, uint64) {
	if !i.in.memory.Write(at, []byte(text)) {
		i.t.Fatalf("no room for %q at %d", text, at)
	}
	return uint64(at), uint64(len(text))
}

func (i *imports) want(what string, got, want int64) {
	i.t.Helper()
	if got != want {
		i.t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

// kv calls of a key and a value that are written to memory first.
func (i *imports) set(key, value string, ttl uint64) int64 {
	k, kn := i.put(2048, key)
	v, vn := i.put(4096, value)
	return i.call("kv_set", k, kn, v, vn, ttl)
}

func (i *imports) add(key string, delta int64, ttl uint64) int64 {
	k, kn := i.put(2048, key)
	return i.call("kv_add", k, kn, uint64(delta), ttl)
}

func (i *imports) get(key string) string {
	k, kn := i.put(2048, key)
	n := i.call("kv_get", k, kn, 16384, 64)
	if n < 0 {
		return fmt.Sprint(n)
	}
	value, _ := i.in.memory.Read(16384, uint32(min(n, 64)))
	return fmt.Sprintf("%d %q", n, value)
}

func counterText(n int64) string {
	return fmt.Sprintf("8 %q", binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

func TestKVImports(t *testing.T) {
	long := string(make([]byte, maxValueBytes+1))
	for _, hook := range []Hook{HookRequest, HookFinish} {
		t.Run(hook.String(), func(t *testing.T) {
			i := newImports(t, hook)
			same := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: got %s, want %s", what, got, want)
				}
			}
			same("absent", i.get("a"), "-1")
			i.want("set", i.set("a", "value", 0), 0)
			same("get", i.get("a"), `5 "value"`)
			i.want("set again", i.set("a", "", 0), 0)
			same("empty", i.get("a"), `0 ""`)
			i.want("a long value", i.set("a", long[:100], 0), 0)
			same("cut to the buffer", i.get("a")[:4], `100 `)
			i.want("too long a value", i.set("a", long, 0), -3)
			i.want("too long a key", i.set(long[:maxKeyBytes+1], "", 0), -3)

			i.want("a counter begins at 0", i.add("n", 5, 0), 5)
			i.want("and goes on", i.add("n", -7, 0), -2)
			same("a counter's bytes", i.get("n"), counterText(-2))
			i.want("set a counter", i.set("n", string(binary.LittleEndian.AppendUint64(nil, 40)), 0), 0)
			i.want("and add", i.add("n", 2, 0), 42)
			i.want("add to no counter", i.add("a", 1, 0), math.MinInt64+2)
			i.want("overflow", i.add("n", math.MaxInt64, 0), math.MinInt64+3)
			i.want("underflow", i.add("m", math.MinInt64+3, 0), math.MinInt64+3)
			i.want("the counter is as it was", i.add("n", 0, 0), 42)
			i.want("too long a counter's name", i.add(long[:maxKeyBytes+1], 1, 0), math.MinInt64+3)

			i.want("set with a bad key", i.call("kv_set", outside, 1, 64, 1, 0), -4)
			i.want("set with a bad value", i.call("kv_set", 64, 1, outside, 1, 0), -4)
			i.want("get with a bad key", i.call("kv_get", outside, 1, 64, 1), -4)
			i.want("get with a bad buffer", i.call("kv_get", 64, 1, 64, outside), -4)
			i.want("add with a bad key", i.call("kv_add", 64, math.MaxUint32, 1, 0), math.MinInt64+4)

			// Other plugins don't see it, and in a finish nobody does, yet.
			kept, found, err := i.in.plugin.host.kv.Get("test", []byte("n"))
			if found != (hook == HookRequest) || err != nil {
				t.Errorf("the store has %x, %v", kept, err)
			}
			if _, found, _ := i.in.plugin.host.kv.Get("other", []byte("n")); found {
				t.Error("another plugin sees the key")
			}
			if hook == HookFinish {
				if err := i.in.plugin.host.kv.Write(i.in.effects.writes); err != nil {
					t.Fatal(err)
				}
			}
			i.in.effects.reset()
			i.want("after the commit", i.add("n", 0, 0), 42)
		})
	}
}

func TestKVWritesOfACall(t *testing.T) {
	i := newImports(t, HookFinish)
	for n := range int64(maxWrites) {
		i.want("add", i.add("n", 1, 0), n+1)
	}
	i.want("one more add", i.add("n", 1, 0), math.MinInt64+5)
	i.want("one more set", i.set("a", "", 0), -5)
}

// A request that is made up leaves nothing behind, in no hook.
func TestSyntheticHasNoEffects(t *testing.T) {
	b := newBench(t)
	body := code(
		opI32(64), opI32(1), opI64(5), opI32(0), opCall(0), opDrop, // kv_add
		opI32(0), opI32(0), opF64(2), opCall(1), opDrop, // metric_add
	)
	g := hookGuest(HookRequest, "").importing(importModule, "kv_add", signature{"iiIi", "I"}).
		importing(importModule, "metric_add", signature{"iiF", "i"}).with(exportRequest, code(body, opI64(0)))
	p := b.mustLoad(t, g, grant(Grants{KVWrite: true, Metrics: true}), func(s *Spec) { s.Metrics = []Metric{{Name: "n"}} })
	for _, c := range []struct {
		flags Flags
		want  int
	}{{FlagSynthetic, 0}, {0, 1}} {
		if _, err := newChain(t, p).Request(context.Background(), &Frame{Flags: c.flags}, new(State)); err != nil {
			t.Fatal(err)
		}
		value, found, _ := b.kv.Get("test", []byte{0})
		if len(b.samples) != c.want || found != (c.want == 1) {
			t.Errorf("flags %d: %d samples and the value %x, want %d", c.flags, len(b.samples), value, c.want)
		}
	}
	if s := b.samples[0]; s.Plugin != "test" || s.Metric.Name != "n" || s.Value != 2 {
		t.Errorf("got the sample %+v", s)
	}
}

func opF64(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v))
}

func TestMetricImports(t *testing.T) {
	i := newImports(t, HookShape, func(s *Spec) {
		s.Metrics = []Metric{
			{Name: "cost", Labels: []Label{{"tier", []string{"free", "paid"}}, {"day", []string{"mo", "tu", "we"}}}},
			{Name: "delay", Type: Histogram},
		}
	})
	value := func(v float64) uint64 { return math.Float64bits(v) }
	for _, c := range []struct {
		name           string
		metric, series uint64
		value          float64
		want           int64
	}{
		{"metric_add", 0, 0, 1, 0},
		{"metric_add", 0, 5, 0, 0},
		{"metric_add", 0, 6, 1, -1},
		{"metric_add", 2, 0, 1, -1},
		{"metric_add", math.MaxUint32, 0, 1, -1},
		{"metric_add", 0, 0, -1, -2},
		{"metric_add", 0, 0, math.NaN(), -2},
		{"metric_add", 0, 0, math.Inf(1), -2},
		{"metric_add", 1, 0, 1, -2},
		{"metric_observe", 0, 0, 1, -2},
		{"metric_observe", 1, 0, -1, 0},
	} {
		i.want(fmt.Sprint(c), i.call(c.name, c.metric, c.series, value(c.value)), c.want)
	}
	if labels := fmt.Sprint(i.in.effects.samples[1].Metric.LabelValues(5)); labels != "[paid we]" {
		t.Errorf("series 5 has %s, want [paid we]", labels)
	}
	for len(i.in.effects.samples) < maxSamples {
		i.want("more", i.call("metric_add", 0, 0, value(1)), 0)
	}
	i.want("too many", i.call("metric_add", 0, 0, value(1)), -5)
}

func TestClockIsFrozenInACall(t *testing.T) {
	i := newImports(t, HookFinish)
	moment := time.Unix(1_700_000_000, 5)
	i.in.plugin.host.now = func() time.Time { moment = moment.Add(time.Second); return moment }
	i.want("clock", i.call("now_unix_ns"), 1_700_000_001_000_000_005)
	i.want("again", i.call("now_unix_ns"), 1_700_000_001_000_000_005)
	i.put(64, "{}")
	i.want("emit", i.call("emit", 1, 64, 2), 0)
	var into result
	i.in.settle(&into)
	if got := into.effects.records[0].ClockUnixNS; got != 1_700_000_001_000_000_005 {
		t.Errorf("the record was made at %d", got)
	}
	i.in.effects.reset()
	i.want("the next call's", i.call("now_unix_ns"), 1_700_000_002_000_000_005)
}

func TestEmitImport(t *testing.T) {
	i := newImports(t, HookShape)
	i.put(64, `{"a":1}`)
	i.want("in shape", i.call("emit", 1, 64, 7), -6)
	i.in.hook = HookFinish
	i.want("first", i.call("emit", 1, 64, 7), 0)
	i.want("second", i.call("emit", math.MaxUint32, 64, 7), 1)
	i.want("not JSON", i.call("emit", 1, 64, 6), -2)
	i.want("nothing", i.call("emit", 1, 64, 0), -2)
	i.want("bad pointer", i.call("emit", 1, outside, 7), -4)
	i.want("bad length", i.call("emit", 1, 64, math.MaxUint32), -4)
	i.want("too large", i.call("emit", 1, 64, maxRecordBytes+1), -3)
}

// Nothing may come of how often a plugin is initialised.
func TestImportsInInit(t *testing.T) {
	i := newImports(t, 0, func(s *Spec) { s.Metrics = []Metric{{Name: "n"}} })
	i.put(64, "{}")
	i.want("emit", i.call("emit", 1, 64, 2), -6)
	i.want("kv_set", i.set("a", "", 0), -6)
	i.want("kv_add", i.add("a", 1, 0), math.MinInt64+6)
	i.want("metric_add", i.call("metric_add", 0, 0, 0), -6)
	if got := i.get("a"); got != "-6" {
		t.Errorf("kv_get: %s", got)
	}
}

// A store that is down is no reason to end the guest.
func TestUnavailableKV(t *testing.T) {
	i := newImports(t, HookRequest)
	i.in.plugin.host.kv = brokenKV{}
	if got := i.get("a"); got != "-6" {
		t.Errorf("get: %s", got)
	}
	i.want("set", i.set("a", "", 0), -6)
	i.want("add", i.add("a", 1, 0), math.MinInt64+6)
}

type brokenKV struct{}

var errBroken = errors.New("the disk is full")

func (brokenKV) Get(string, []byte) ([]byte, bool, error) { return nil, false, errBroken }
func (brokenKV) Add(string, []byte, int64, time.Duration) (int64, error) {
	return 0, errBroken
}
func (brokenKV) Write([]Write) error { return errBroken }
