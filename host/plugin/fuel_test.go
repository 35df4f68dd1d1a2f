package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// starve loads a guest whose shape hook runs body again and again, calls it
// and gives the failure.
func starve(t *testing.T, g *guest, adjust ...func(*Spec)) (*bench, *Failure) {
	t.Helper()
	b := newBench(t)
	p := b.mustLoad(t, g, adjust...)
	began := time.Now()
	_, err := shape(t, p)
	took := time.Since(began)
	var failure *Failure
	if !errors.As(err, &failure) || failure.Kind != FailureOutOfFuel {
		t.Fatalf("got %v, want out_of_fuel", err)
	}
	if len(p.pool.idle) != 0 {
		t.Error("the guest is called again")
	}
	t.Logf("stopped after %.1f ms", float64(took.Microseconds())/1000)
	return b, failure
}

func loopForever(body ...[]byte) []byte {
	return code([]byte{0x03, 0x40}, code(body...), []byte{0x0c, 0x00, 0x0b}, opI64(0))
}

// A call fails if it used more than its budget, to the unit, also where the guest
// has returned without a look at it.
func TestFuelToTheUnit(t *testing.T) {
	// Behind the block there is enough for a charge of its own, the last of the call.
	tail := slices.Repeat(code(opI32(1), opDrop), 20)
	g := goodGuest("").with(exportShape, code([]byte{0x02, 0x40}, opI32(0), []byte{0x0d, 0x00, 0x0b}, tail, opI64(0)))
	b := newBench(t)
	if _, err := shape(t, b.mustLoad(t, g)); err != nil {
		t.Fatal(err)
	}
	exact := b.calls[0].Fuel
	for _, budget := range []int64{exact, exact - 1} {
		p := b.mustLoad(t, g, func(s *Spec) { s.Fuel = budget })
		_, err := shape(t, p)
		used := b.calls[len(b.calls)-1].Fuel
		if kind := failureOf(t, err); (kind == FailureOutOfFuel) != (budget < exact) || used != exact {
			t.Errorf("a budget of %d units for %d: got %v and %d used", budget, exact, err, used)
		}
	}
}

// What a guest lets the host do for it is charged like its own work. How long
// each took is logged and not asserted: it says little on a busy machine.
func TestHostWorkIsCharged(t *testing.T) {
	const vectors = 3 << 15 // the frame is written below it
	// Sixteen vectors, each over the whole of a large memory.
	iovecs := strings.Repeat("\x00\x00\x00\x00\x00\x00\x10\x00", 16)
	for _, c := range []struct {
		name, module, imported string
		signature              signature
		call                   []byte // with its arguments and what drops its result
		most                   int    // calls that the budget lasts for
	}{
		{"huge writes", wasiModule, "fd_write", signature{"iiii", "i"},
			code(opI32(2), opI32(vectors), opI32(16), opI32(64), opCall(0), opDrop), defaultFuel / (500 + 2*maxLogLine)},
		{"empty writes", wasiModule, "fd_write", signature{"iiii", "i"},
			code(opI32(2), opI32(vectors), opI32(0), opI32(64), opCall(0), opDrop), defaultFuel / 500},
		{"random numbers", wasiModule, "random_get", signature{"ii", "i"},
			code(opI32(0), opI32(256), opCall(0), opDrop), defaultFuel / (200 + 2*256)},
		{"readings of the clock", wasiModule, "clock_time_get", signature{"iIi", "i"},
			code(opI32(1), opI64(0), opI32(64), opCall(0), opDrop), defaultFuel / 200},
		{"polls", wasiModule, "poll_oneoff", signature{"iiii", "i"},
			code(opI32(0), opI32(4096), opI32(16), opI32(64), opCall(0), opDrop), defaultFuel / (200 + 2*16*80)},
		{"log lines", importModule, "log", signature{"iii", ""},
			code(opI32(1), opI32(0), opI32(maxLogLine), opCall(0)), defaultFuel / 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := goodGuest("").importing(c.module, c.imported, c.signature)
			g.memory = []byte{0x00, 0x11} // 17 pages
			g.data = []guestData{{vectors, iovecs}}
			counter := code(opI32(guestResultAt), opI32(guestResultAt), []byte{0x28, 2, 0}, opI32(1), []byte{0x6a, 0x36, 2, 0})
			g.with(exportShape, loopForever(counter, c.call))
			b := newBench(t)
			in, err := b.mustLoad(t, g).instantiate(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer in.close(context.Background())
			began := time.Now()
			failure := in.run(context.Background(), HookShape, &Frame{}, new(result))
			took := time.Since(began)
			if failure == nil || failure.Kind != FailureOutOfFuel {
				t.Fatalf("got %v, want out_of_fuel", failure)
			}
			calls, _ := in.memory.ReadUint32Le(guestResultAt)
			if int(calls) > c.most || calls == 0 {
				t.Errorf("%d calls for 5 M units, want at most %d", calls, c.most)
			}
			t.Logf("%d calls, stopped after %.1f ms", calls, float64(took.Microseconds())/1000)
		})
	}
}

func TestMemoryStorms(t *testing.T) {
	t.Run("grow page by page", func(t *testing.T) {
		starve(t, goodGuest("").with(exportShape, loopForever(opI32(1), opGrow(), opDrop)))
	})
	t.Run("grow and fill", func(t *testing.T) {
		g := goodGuest("").with(exportShape, loopForever(
			opI32(200), opGrow(), opDrop, opI32(0), opI32(1), []byte{0x3f, 0}, opI32(16), []byte{0x74, 0xfc, 11, 0}))
		starve(t, g)
	})
}

// The guest's buffer function and its hook share one budget.
func TestBudgetIsShared(t *testing.T) {
	turns := func(n int32, result []byte) []byte { // a loop of about 16·n units
		return code(opI32(n), []byte{0x21, 0, 0x03, 0x40, 0x20, 0}, opI32(1), []byte{0x6b, 0x22, 0, 0x0d, 0, 0x0b}, result)
	}
	half := int32(400_000) // turns of 7 units: 2.8 M
	g := goodGuest("").with(exportBuffer, turns(half, opI32(guestBufferAt)))
	if _, err := shape(t, newBench(t).mustLoad(t, g)); err != nil {
		t.Errorf("a buffer for 2.8 M units: %v", err)
	}
	g.with(exportShape, turns(half, opI64(0)))
	_, failure := starve(t, g)
	if !strings.Contains(failure.Error(), "used up its 5000000 units") {
		t.Errorf("got %v, want the budget", failure)
	}
}

func TestFuelIsConfigured(t *testing.T) {
	g := goodGuest(`{"fields":{"x_test":1}}`)
	b := newBench(t)
	p := b.mustLoad(t, g)
	if _, err := shape(t, p); err != nil {
		t.Fatal(err)
	}
	used := b.calls[0].Fuel
	// Two functions with a constant and an end each, one parameter, and one
	// result to be moved.
	if want := int64(2 * (64 + 1 + 2 + 1)); used != want {
		t.Errorf("the call is said to use %d units, want %d", used, want)
	}
	if _, err := shape(t, b.mustLoad(t, g, func(s *Spec) { s.Fuel = used })); err != nil {
		t.Errorf("with just enough fuel: %v", err)
	}
	starve(t, g, func(s *Spec) { s.Fuel = used - 1 })
}

// An import that costs more than is left ends the call in the host.
func TestChargeStopsInTheHost(t *testing.T) {
	g := goodGuest("").importing(importModule, "log", signature{"iii", ""}).
		with(exportShape, code(opI32(1), opI32(0), opI32(8), opCall(0), opI64(0)))
	b, _ := starve(t, g, func(s *Spec) { s.Fuel = 5000 })
	if strings.Contains(b.logged.String(), "plugin log") {
		t.Error("the line that was not paid for is written")
	}
}

// A call that took too long by the wall clock is a failure of its plugin,
// and its answer is used.
func TestLateCall(t *testing.T) {
	b := newBench(t)
	b.slowCall = 0
	p := b.mustLoad(t, goodGuest(`{"fields":{"x_test":1}}`))
	got, err := shape(t, p)
	if got != `"x_test":1` || err != nil {
		t.Errorf("got %s, %v; want the answer", got, err)
	}
	if len(b.calls) != 1 || b.calls[0].Failure != FailureTimeout || !strings.Contains(b.logged.String(), "kind=timeout") {
		t.Errorf("the observer got %+v, the log %q; want a timeout", b.calls, b.logged.String())
	}
}
