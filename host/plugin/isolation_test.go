package plugin

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// counting counts its calls in memory, writes a page beside, and gives the
// count as the length of its answer's number.
func counting() *guest {
	load, store := []byte{0x28, 0x02, 0x00}, []byte{0x36, 0x02, 0x00}
	g := goodGuest("")
	g.data = []guestData{{8, "kept"}, {guestResultAt, `{"fields":{"x_test":1}}`}}
	// result[21] = '0' + ++memory[0]; memory[8] = 0, which init left as "kept"
	count := code(opI32(0), opI32(0), load, opI32(1), []byte{0x6a}, store)
	digit := code(opI32(guestResultAt+20), opI32(0), load, opI32('0'), []byte{0x6a}, []byte{0x3a, 0x00, 0x00})
	wipe := code(opI32(8), opI32(0), store)
	return g.with(exportShape, code(count, digit, wipe, opI64(int64(guestResultAt)<<32|23)))
}

func TestIsolation(t *testing.T) {
	for isolation, want := range map[Isolation]string{Pooled: "1 2 3 ", Reset: "1 1 1 ", Fresh: "1 1 1 "} {
		b := newBench(t)
		p := b.mustLoad(t, counting(), func(s *Spec) { s.Isolation = isolation })
		got := ""
		for range 3 {
			members, err := shape(t, p)
			if err != nil {
				t.Fatal(err)
			}
			got += strings.TrimPrefix(members, `"x_test":`) + " "
		}
		if got != want {
			t.Errorf("%s: three calls count %s, want %s", isolation, got, want)
		}
		if made := len(p.pool.idle); (made == 1) != (isolation != Fresh) {
			t.Errorf("%s: %d instances are idle", isolation, made)
		}
		if isolation == Reset {
			in, _ := p.pool.take(context.Background())
			if text, _ := in.memory.Read(8, 4); string(text) != "kept" {
				t.Errorf("the memory has %q, want what was there before the call", text)
			}
			p.pool.put(in)
		}
		if parsed, err := ParseIsolation(isolation.String()); parsed != isolation || err != nil {
			t.Errorf("%s is read as %s, %v", isolation, parsed, err)
		}
	}
	if _, err := ParseIsolation("none"); err == nil {
		t.Error("the isolation none was accepted")
	}
}

// A memory that has grown is not put back: the instance goes.
func TestResetOfGrownMemory(t *testing.T) {
	b := newBench(t)
	g := goodGuest("").with(exportShape, code(opI32(1), opGrow(), opDrop, opI64(0)))
	p := b.mustLoad(t, g, func(s *Spec) { s.Isolation = Reset })
	for range 3 {
		if _, err := shape(t, p); err != nil {
			t.Fatal(err)
		}
		if len(p.pool.idle) != 0 || len(p.pool.permits) != p.pool.size {
			t.Fatalf("%d instances are idle", len(p.pool.idle))
		}
	}
}

// Guests that exit, trap, grow, are stopped and are refused leave neither
// address space nor a mapping behind.
func TestMemoryIsGivenBack(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("address space is counted in /proc, which only Linux has")
	}
	const limit = 1 << 30 // much more than all else that the test maps
	exits := code(opI32(1), opCall(0), opI64(0))
	for name, g := range map[string]*guest{
		"sound":   goodGuest("").with(exportShape, opI64(0)),
		"traps":   goodGuest("").with(exportShape, opUnreachable),
		"exits":   goodGuest("").importing(wasiModule, "proc_exit", signature{"i", ""}).with(exportShape, exits),
		"grows":   goodGuest("").with(exportShape, code(opI32(1), opGrow(), opDrop, opI64(0))),
		"refused": goodGuest("").with(exportInit, opI32(1<<30)),
		"no init": goodGuest("").with(exportInit, opUnreachable),
	} {
		t.Run(name, func(t *testing.T) {
			host, err := NewHost(context.Background(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close(context.Background())
			round := func(isolation Isolation) {
				p, err := host.Load(context.Background(), Spec{Name: "test", Wasm: g.assemble(), Isolation: isolation, MemoryLimit: limit})
				if refused := name == "refused" || name == "no init"; (err != nil) != refused {
					t.Fatal(err)
				}
				if err != nil {
					return
				}
				var running sync.WaitGroup
				for range 4 {
					running.Go(func() { _, _ = newChain(t, p).Shape(context.Background(), &Frame{}, new(State)) })
				}
				running.Wait()
				if err := p.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			before := addressSpace(t)
			for _, isolation := range []Isolation{Pooled, Reset, Fresh} {
				round(isolation)
			}
			if grown := addressSpace(t) - before; grown >= limit {
				t.Errorf("the address space has grown by %d bytes, more than an instance may have", grown)
			}
			maps, err := os.ReadFile("/proc/self/maps")
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(maps), "wasmeter-plugin"); n != 0 {
				t.Errorf("%d mappings of plugins' memory are left", n)
			}
		})
	}
}

// addressSpace is what the process has mapped, in bytes: proc_pid_statm(5).
func addressSpace(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// A memory that grows keeps its content, and is zero where it is new.
func TestGuestMemory(t *testing.T) {
	m, err := newGuestMemory(5 * wasmPage)
	if err != nil {
		t.Fatal(err)
	}
	defer m.release()
	for pages := 1; pages <= 5; pages += 2 {
		bytes := m.Reallocate(uint64(pages) * wasmPage)
		if len(bytes) != pages*wasmPage || cap(bytes) < len(bytes) {
			t.Fatalf("%d bytes for %d pages", len(bytes), pages)
		}
		for i, b := range bytes {
			want := byte(0)
			if i%wasmPage == 7 && i/wasmPage < pages-2 {
				want = byte(i/wasmPage + 1) // as it was written below
			}
			if b != want {
				t.Fatalf("%d pages: byte %d is %d, want %d", pages, i, b, want)
			}
		}
		for page := range pages {
			bytes[page*wasmPage+7] = byte(page + 1)
		}
	}
	if got := m.Reallocate(6 * wasmPage); got != nil || !m.refused {
		t.Errorf("a limit of 5 pages gives %d bytes for 6 (refused: %v)", len(got), m.refused)
	}
}

func BenchmarkIsolation(b *testing.B) {
	for _, isolation := range []Isolation{Pooled, Reset, Fresh} {
		b.Run(fmt.Sprint(isolation), func(b *testing.B) {
			host, err := NewHost(context.Background(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer host.Close(context.Background())
			p, err := host.Load(context.Background(), Spec{
				Name: "test", Wasm: goodGuest(`{"fields":{"x_test":1}}`).assemble(), Isolation: isolation, Grants: Grants{Fields: []string{"x_test"}}, OnError: Closed,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close(context.Background())
			chain, frame, state := newChain(b, p), fullFrame(), new(State)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := chain.Shape(context.Background(), frame, state); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
