package plugin

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
)

// wasi runs one of the WASI calls on the memory of an idle instance and
// gives its error number.
type wasi struct {
	t  *testing.T
	in *instance
}

func newWasi(t *testing.T) (*wasi, *bench) {
	b := newBench(t)
	p := b.mustLoad(t, goodGuest("{}"))
	in, err := p.pool.take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.pool.put(in) })
	in.refuel(defaultFuel)
	return &wasi{t, in}, b
}

func (w *wasi) call(name string, args ...uint64) uint64 {
	stack := append(args, 0)
	wasiFunctions[name](context.Background(), w.in, stack)
	return stack[0]
}

func (w *wasi) want(what string, got, want uint64) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func (w *wasi) u64(at uint32) uint64 { v, _ := w.in.memory.ReadUint64Le(at); return v }
func (w *wasi) u32(at uint32) uint64 { v, _ := w.in.memory.ReadUint32Le(at); return uint64(v) }

// outside is an address behind the guest's two pages.
const outside = 1 << 20

func TestWasiNothingToSee(t *testing.T) {
	w, _ := newWasi(t)
	for _, name := range []string{"args_sizes_get", "environ_sizes_get"} {
		w.in.memory.WriteUint64Le(64, ^uint64(0))
		w.want(name, w.call(name, 64, 68), errnoSuccess)
		w.want(name+" count and size", w.u64(64), 0)
		w.want(name+" outside", w.call(name, 64, outside), errnoFault)
	}
	w.want("args_get", w.call("args_get", 0, 0), errnoSuccess)
	w.want("environ_get", w.call("environ_get", 0, 0), errnoSuccess)
	w.want("sched_yield", w.call("sched_yield"), errnoSuccess)
	for _, name := range []string{"fd_close", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_prestat_get", "fd_prestat_dir_name"} {
		w.want(name, w.call(name, 2, 64, 68), errnoBadFile)
	}
}

func TestWasiClock(t *testing.T) {
	w, _ := newWasi(t)
	w.want("monotonic", w.call("clock_time_get", 1, 0, 64), errnoSuccess)
	first := w.u64(64)
	w.want("realtime", w.call("clock_time_get", 0, 0, 64), errnoSuccess)
	w.want("one tick later", w.u64(64), clockEpoch+first+clockTick)
	w.want("process time", w.call("clock_time_get", 2, 0, 64), errnoInvalid)
	w.want("outside", w.call("clock_time_get", 1, 0, outside), errnoFault)
}

func TestWasiPoll(t *testing.T) {
	w, _ := newWasi(t)
	const subscriptions, events, result = 1024, 4096, 64
	subscribe := func(i uint32, tag byte, timeout uint64, flags uint16) {
		at := subscriptions + 48*i
		w.in.memory.WriteUint64Le(at, uint64(7+i))
		w.in.memory.WriteByte(at+8, tag)
		w.in.memory.WriteUint64Le(at+24, timeout)
		w.in.memory.WriteUint16Le(at+40, flags)
	}
	w.in.clock = 1000
	subscribe(0, 0, 5_000, 0) // 5 µs from here
	subscribe(1, 0, 9_000, 1) // at 9 µs
	subscribe(2, 1, 0, 0)     // a file
	subscribe(3, 0, 1<<63, 0) // centuries
	w.want("poll", w.call("poll_oneoff", subscriptions, events, 4, result), errnoSuccess)
	w.want("events", w.u32(result), 4)
	w.want("clock", w.in.clock, 9_000)
	for i := range uint32(4) {
		w.want("userdata", w.u64(events+32*i), uint64(7+i))
	}
	file, _ := w.in.memory.ReadUint16Le(events + 64 + 8)
	w.want("file's error", uint64(file), errnoBadFile)
	w.want("nothing to wait for", w.call("poll_oneoff", subscriptions, events, 0, result), errnoInvalid)
	w.want("too many", w.call("poll_oneoff", subscriptions, events, 17, result), errnoInvalid)
	w.want("outside", w.call("poll_oneoff", outside, events, 1, result), errnoFault)
	w.want("events outside", w.call("poll_oneoff", subscriptions, outside, 1, result), errnoFault)
}

func TestWasiRandom(t *testing.T) {
	w, _ := newWasi(t)
	numbers := func(arrival uint64) string {
		w.in.random.Seed(arrival, 0)
		w.want("random", w.call("random_get", 64, 13), errnoSuccess)
		text, _ := w.in.memory.Read(64, 14)
		if text[13] != 0 {
			t.Error("more was written than asked for")
		}
		return string(text)
	}
	first, again, other := numbers(1), numbers(1), numbers(2)
	if first != again || first == other {
		t.Error("the numbers do not follow from the seed")
	}
	w.want("too many", w.call("random_get", 64, maxRandomBytes+1), errnoInvalid)
	w.want("outside", w.call("random_get", outside, 1), errnoFault)
}

func TestWasiWrite(t *testing.T) {
	w, b := newWasi(t)
	const vectors, text, result = 1024, 8192, 64
	write := func(file uint64, pieces ...string) uint64 {
		at := uint32(text)
		for i, piece := range pieces {
			w.in.memory.Write(at, []byte(piece))
			entry := binary.LittleEndian.AppendUint32(nil, at)
			w.in.memory.Write(uint32(vectors+8*i), binary.LittleEndian.AppendUint32(entry, uint32(len(piece))))
			at += uint32(len(piece))
		}
		return w.call("fd_write", file, vectors, uint64(len(pieces)), result)
	}
	w.want("stdout", write(1, "x"), errnoBadFile)
	w.want("17 vectors", write(2, make([]string, 17)...), errnoInvalid)
	w.want("two pieces", write(2, "panic: ", "no price\n"), errnoSuccess)
	w.want("two pieces", w.u32(result), 16)
	w.in.flushSaid(context.Background())
	if !strings.Contains(b.logged.String(), `msg="plugin log" plugin=test text="panic: no price"`) {
		t.Errorf("the log has %q, want one line", b.logged.String())
	}
	w.want("3 KiB", write(2, strings.Repeat("a", 1024), strings.Repeat("b", 2048)), errnoSuccess)
	w.want("3 KiB", w.u32(result), maxLogLine)
	w.want("when full", write(2, "c"), errnoSuccess)
	w.want("when full", w.u32(result), 1)

	w.in.memory.WriteUint64Le(vectors, outside|1<<32)
	w.want("text outside", w.call("fd_write", 2, vectors, 1, result), errnoFault)
	w.want("vectors outside", w.call("fd_write", 2, outside, 1, result), errnoFault)
	w.want("result outside", w.call("fd_write", 2, vectors, 0, outside), errnoFault)
}

func TestLogImport(t *testing.T) {
	w, b := newWasi(t)
	w.in.memory.Write(64, []byte("price\xff \"x\"\n"))
	for _, args := range [][]uint64{{1, 64, 10}, {9, 64, 10}, {1, outside, 10}, {1, 64, outside}} {
		abiFunctions["log"](context.Background(), w.in, args)
	}
	// The third is outside; the fourth is cut to 2 KiB and inside.
	logged := b.logged.String()
	if strings.Count(logged, "plugin log") != 3 || !strings.Contains(logged, "level=INFO") || !strings.Contains(logged, "level=ERROR") || !strings.Contains(logged, "price\uFFFD") {
		t.Errorf("the log has %q", logged)
	}
	for range 2 * logBurst {
		abiFunctions["log"](context.Background(), w.in, []uint64{1, 64, 10})
	}
	if lines := strings.Count(b.logged.String(), "plugin log"); lines < logBurst || lines > logBurst+logBurst/2 {
		t.Errorf("%d lines for %d, want about %d", lines, 2*logBurst+3, logBurst)
	}
}
