//go:build cuda && cgo && linux

package emu_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

const (
	outOfMemory        driver.Result = 2
	noDevice           driver.Result = 100
	invalidContext     driver.Result = 201
	captureUnsupported driver.Result = 900
	captureInvalidated driver.Result = 901
	captureIsolation   driver.Result = 905
	captureUnjoined    driver.Result = 904
	unsupportedPTX     driver.Result = 222
	invalidImage       driver.Result = 200
	notFound           driver.Result = 500
	noBinaryForGPU     driver.Result = 209
	capturedEvent      driver.Result = 907
	ones                             = 0xffffffff
)

func (d *device) newStream() *driver.Stream {
	d.t.Helper()
	s, err := d.NewStream()
	d.must(err)
	d.closers = append(d.closers, s.Close)
	return s
}

func (d *device) newEvent() *driver.Event {
	d.t.Helper()
	e, err := d.NewEvent()
	d.must(err)
	d.closers = append(d.closers, e.Close)
	return e
}

// wrong checks a call that must fail.
func (d *device) wrong(err error, want driver.Result, says string) {
	d.t.Helper()
	if got := result(err); got != want {
		d.t.Errorf("got %v, want %v: %v", got, want, err)
	}
	if r := d.lib.Report(); !strings.Contains(r, says) || says == "" && r != "" {
		d.t.Errorf("the report is %q, want %q in it", r, says)
	}
	d.lib.Reset()
}

func word(p *driver.Pinned, i int) uint32 { return binary.LittleEndian.Uint32(p.Bytes()[4*i:]) }

// TestLazy reads too early, at each place where a program can.
func TestLazy(t *testing.T) {
	d := open(t)
	y, x := d.up(1), d.up(10)
	host := d.pinned(4)
	event := d.newEvent()
	add := func() { d.must(d.launch("probe_add", 1, 1, 0, uint64(y), uint64(x), 1)) }
	add()
	d.must(d.stream.CopyToHost(host, 0, y, 4))
	d.must(d.stream.Record(event))
	add()
	if got := word(host, 0); got != ones {
		t.Errorf("before a wait: got %d, want ones", got)
	}
	d.must(event.Sync())
	if got := word(host, 0); got != 11 {
		t.Errorf("after the event: got %d, want 11", got)
	}
	d.must(d.stream.CopyToHost(host, 0, y, 4))
	if got := word(host, 0); got != ones {
		t.Errorf("before a second wait: got %d, want ones", got)
	}
	d.must(d.stream.Sync())
	if got := word(host, 0); got != 21 {
		t.Errorf("after Sync: got %d, want 21", got)
	}
	// A source that changes before its copy.
	binary.LittleEndian.PutUint32(host.Bytes(), 5)
	d.must(d.stream.CopyToDevice(y, host, 0, 4))
	binary.LittleEndian.PutUint32(host.Bytes(), 6)
	if got := d.down(y, 1)[0]; got != 6 {
		t.Errorf("a source that was overwritten: got %d, want 6", got)
	}
}

// TestNewMemory is all ones, and so is what was given back and taken again.
func TestNewMemory(t *testing.T) {
	d := open(t)
	const words = 5000
	for range 3 {
		p, err := d.Alloc(4 * words)
		d.must(err)
		for i, v := range d.down(p, words) {
			if v != ones {
				t.Fatalf("word %d: got %#x, want ones", i, v)
			}
		}
		d.must(d.stream.Fill(p, 0, 4*words))
		d.must(d.stream.Sync())
		d.must(d.Free(p))
	}
}

// TestEventOrder has one stream wait for another, through an event and without.
func TestEventOrder(t *testing.T) {
	d := open(t)
	first, second := d.stream, d.newStream()
	event := d.newEvent()
	f, err := d.module.Function("probe_add")
	d.must(err)
	one := driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	y, x := d.up(1), d.up(10)
	host := d.pinned(4)
	for _, waits := range []bool{true, false} {
		d.must(d.stream.Fill(y, 0, 4))
		d.must(d.stream.Sync())
		d.must(first.Launch(f, one, []uint64{uint64(y), uint64(x), 1}))
		d.must(first.Record(event))
		if waits {
			d.must(second.Wait(event))
		}
		d.must(second.CopyToHost(host, 0, y, 4))
		err := second.Sync()
		if waits {
			d.must(err)
			if got := word(host, 0); got != 10 {
				t.Errorf("with a wait: got %d, want 10", got)
			}
			continue
		}
		if got := word(host, 0); got != 0 {
			t.Errorf("without a wait: got %d, want 0", got)
		}
		d.must(err) // the copy came first, which nothing can tell from being right
		err = first.Sync()
		if d.lib.Checked() {
			d.wrong(err, launchFailed, "an event is missing")
		} else {
			d.must(err)
		}
	}
}

// TestMissingWait has kernels and copies of two streams at the same memory. Which
// of two is missed by a wait too few does not depend on which happens to run first.
func TestMissingWait(t *testing.T) {
	d := open(t)
	if !d.lib.Checked() {
		t.Skip("the plain build does not see this")
	}
	a, b := d.stream, d.newStream()
	event := d.newEvent()
	f, err := d.module.Function("probe_read")
	d.must(err)
	read := func(s *driver.Stream, y, x driver.Ptr) {
		t.Helper()
		d.must(s.Launch(f, driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}}, []uint64{uint64(y), uint64(x)}))
	}
	x, y, z := d.up(make([]uint32, 64)...), d.up(make([]uint32, 64)...), d.up(make([]uint32, 64)...)
	order := map[string]func(){
		"nothing": func() {},
		"an event": func() {
			d.must(a.Record(event))
			d.must(b.Wait(event))
		},
		"an event too early": nil,
		"the host":           func() { d.must(a.Sync()) },
	}
	cases := []struct {
		name        string
		left, right func()
		conflict    bool
	}{
		{"write, read", func() { read(a, y, x) }, func() { read(b, z, y) }, true},
		{"read, write", func() { read(a, y, x) }, func() { read(b, x, z) }, true},
		{"write, write", func() { read(a, y, x) }, func() { read(b, y, z) }, true},
		{"read, read", func() { read(a, y, x) }, func() { read(b, z, x) }, false},
		{"fill, read", func() { d.must(a.Fill(x, 0, 256)) }, func() { read(b, z, x) }, true},
		{"read, fill", func() { read(a, y, x) }, func() { d.must(b.Fill(x, 0, 256)) }, true},
		{"other memory", func() { read(a, y, x) }, func() { d.must(b.Fill(z, 0, 256)) }, false},
	}
	for _, c := range cases {
		for by, wait := range order {
			for _, firstA := range []bool{true, false} {
				if wait == nil {
					d.must(a.Record(event))
				}
				c.left()
				if wait == nil {
					d.must(b.Wait(event))
				} else {
					wait()
				}
				c.right()
				streams := []*driver.Stream{b, a}
				if firstA {
					streams = []*driver.Stream{a, b}
				}
				err := errors.Join(streams[0].Sync(), streams[1].Sync())
				said := d.lib.Report()
				d.lib.Reset()
				d.must(errors.Join(a.Sync(), b.Sync()))
				missing := c.conflict && (by == "nothing" || by == "an event too early")
				if (err != nil) != missing || strings.Contains(said, "an event is missing") != missing {
					t.Errorf("%s, ordered by %s, first stream waited for first %v: got %v\n%s", c.name, by, firstA, err, said)
				}
			}
		}
	}
}

// TestGraph captures, launches twice, and looks at what was counted.
func TestGraph(t *testing.T) {
	d := open(t)
	y, x := d.up(0), d.up(10)
	host := d.pinned(8)
	other, fork, joined := d.newStream(), d.newEvent(), d.newEvent()
	f, err := d.module.Function("probe_add")
	d.must(err)
	one := driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	launches, kernels, graphs := d.lib.Counter("launches"), d.lib.Counter("kernels"), d.lib.Counter("graph_launches")
	allocations, synchronous := d.lib.Counter("allocations"), d.lib.Counter("synchronous_copies")
	g, err := d.stream.Capture(func() error {
		return errors.Join(
			d.launch("probe_add", 1, 1, 0, uint64(y), uint64(x), 1),
			d.stream.Record(fork),
			other.Wait(fork),
			other.Launch(f, one, []uint64{uint64(y), uint64(x), 1}),
			other.Record(joined),
			d.stream.Wait(joined),
			d.stream.CopyToHost(host, 0, y, 4),
		)
	})
	d.must(err)
	d.closers = append(d.closers, g.Close)
	if word(host, 0) != ones {
		// Pinned memory begins as ones; a capture must not write.
		t.Error("the capture ran")
	}
	for i := range 2 {
		binary.LittleEndian.PutUint32(host.Bytes(), 1)
		d.must(d.stream.LaunchGraph(g))
		if got := word(host, 0); got != ones {
			t.Errorf("launch %d, before a wait: got %d, want ones", i, got)
		}
		d.must(d.stream.Sync())
		if got, want := word(host, 0), uint32(20*(i+1)); got != want {
			t.Errorf("launch %d: got %d, want %d", i, got, want)
		}
	}
	for name, want := range map[string]uint64{
		"launches": launches, "kernels": kernels + 4, "graph_launches": graphs + 2, "allocations": allocations, "synchronous_copies": synchronous,
	} {
		if got := d.lib.Counter(name); got != want {
			t.Errorf("counter %s: got %d, want %d", name, got, want)
		}
	}
	if got := d.lib.Counter("graph_nodes"); got != 3 && got%3 != 0 {
		t.Errorf("counter graph_nodes: got %d, want 3 a capture", got)
	}
}

// TestCaptureErrors does what may not be done while a stream is captured.
func TestCaptureErrors(t *testing.T) {
	d := open(t)
	y := d.up(0)
	host := d.pinned(4)
	event, before, other := d.newEvent(), d.newEvent(), d.newStream()
	d.must(d.stream.Record(before))
	f, err := d.module.Function("probe_add")
	d.must(err)
	one := driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	cases := []struct {
		name     string
		do       func() error
		is, then driver.Result
		says     string
	}{
		{"Sync", d.stream.Sync, captureUnsupported, captureInvalidated, "cuStreamSynchronize while a stream is captured"},
		{"Alloc", func() error { _, err := d.Alloc(4); return err }, captureUnsupported, captureInvalidated, "cuMemAlloc while"},
		{"Free", func() error { return d.Free(y) }, captureUnsupported, captureInvalidated, "cuMemFree while"},
		{"Pinned", func() error { _, err := d.Pinned(4); return err }, captureUnsupported, captureInvalidated, "cuMemHostAlloc while"},
		{"Event.Sync", func() error { return errors.Join(d.stream.Record(event), event.Sync()) }, capturedEvent, captureInvalidated, "cuEventSynchronize while"},
		{"Wait for an event of before", func() error { return d.stream.Wait(before) }, captureIsolation, captureInvalidated, "recorded outside of the capture"},
		{"a stream that does not come back", func() error {
			return errors.Join(d.stream.Record(event), other.Wait(event), other.Launch(f, one, []uint64{uint64(y), uint64(y), 1}))
		}, 0, captureUnjoined, ""},
		{"nothing", func() error { return nil }, 0, 0, ""},
	}
	for _, c := range cases {
		t.Log(c.name)
		var inner error
		g, err := d.stream.Capture(func() error {
			inner = c.do()
			return nil
		})
		if result(inner) != c.is {
			t.Errorf("the call: got %v, want %v", inner, c.is)
		}
		d.wrong(err, c.then, c.says)
		if g != nil {
			d.must(g.Close())
		}
		// The stream is as before.
		d.must(d.stream.CopyToHost(host, 0, y, 4))
		d.must(d.stream.Sync())
	}
}

// TestRefused has calls with values that no driver takes.
func TestRefused(t *testing.T) {
	d := open(t)
	p := d.memory(1000)
	host := d.pinned(2000)
	d.wrong(d.stream.CopyToHost(host, 0, p, 1001), invalidValue, "copy to the host: 1001 bytes at ")
	d.wrong(d.stream.CopyToDevice(p+1, host, 0, 1000), invalidValue, "copy to the device: 1000 bytes at ")
	d.wrong(d.stream.CopyOnDevice(p, p+999, 2), invalidValue, "copy on the device: 2 bytes at ")
	d.wrong(d.stream.Fill(p-1, 0, 2), invalidValue, "fill: 2 bytes at ")
	d.wrong(d.launch("probe_index", 0, 64, 0, 0), invalidValue, "a dimension is 0")
	d.wrong(d.launch("probe_index", 1, 1025, 0, 0), invalidValue, "more than 1024 threads")
	d.wrong(d.launch("probe_index", 1, 64, 48<<10+1, 0), invalidValue, "more shared memory than the function is allowed")
	f, err := d.module.Function("probe_dynamic_bounds")
	d.must(err)
	y := d.memory(4 * 64)
	d.must(f.AllowShared(100 << 10))
	d.must(d.launch("probe_dynamic_bounds", 1, 64, 100<<10, uint64(y), 0))
	d.must(d.stream.Sync())
	d.wrong(f.AllowShared(166912+1), invalidValue, "")
	_, err = d.module.Function("no_such_kernel")
	d.wrong(err, notFound, "kernel no_such_kernel is not compiled into the emulator")

	d.Leave()
	_, err = d.Alloc(1)
	d.wrong(err, invalidContext, "")
	d.must(d.Enter())
}

// TestEventTimes: device time is the host's while the work runs.
func TestEventTimes(t *testing.T) {
	d := open(t)
	from, to := d.newEvent(), d.newEvent()
	y, x := d.up(make([]uint32, 1024)...), d.up(make([]uint32, 1024)...)
	d.must(d.stream.Record(from))
	d.must(d.launch("probe_add", 16, 64, 0, uint64(y), uint64(x), 1024))
	d.must(d.stream.Record(to))
	if _, err := to.Since(from); result(err) != driver.NotReady {
		t.Errorf("before a wait: got %v, want CUDA_ERROR_NOT_READY", err)
	}
	d.must(d.stream.Sync())
	elapsed, err := to.Since(from)
	d.must(err)
	back, err := from.Since(to)
	d.must(err)
	if elapsed <= 0 || back != -elapsed {
		t.Errorf("got %v, and %v back", elapsed, back)
	}
}
