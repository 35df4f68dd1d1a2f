package plugin

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReloadsUnderLoad reloads plugins, each time with other bytes and another
// configuration, while requests are made of them, and counts what is left.
// WASMETER_RELOADS=1000 makes more of them.
func TestReloadsUnderLoad(t *testing.T) {
	reloads := 30
	if text := os.Getenv("WASMETER_RELOADS"); text != "" {
		var err error
		if reloads, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	host, err := NewHost(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close(context.Background())
	g := &generations{bench: &bench{Host: host}, Current: NewCurrent(host), t: t, dir: t.TempDir()}
	generation := func(n int) []Spec {
		changing := g.spec("changing", answering(n))
		changing.Isolation = Isolation(n % 3)
		configured := g.spec("configured", goodGuest(``))
		configured.Config = fmt.Appendf(nil, `{"n":%d}`, n)
		configured.Grants = Grants{}
		steady := g.spec("steady", goodGuest(``))
		steady.Grants = Grants{}
		return []Spec{changing, configured, steady}
	}
	g.reload(generation(0)...)

	var stop atomic.Bool
	var answered atomic.Int64
	var load sync.WaitGroup
	var gate sync.RWMutex // held while a request is made; measuring waits for all
	defer func() {
		stop.Store(true)
		load.Wait()
	}()
	for range 4 {
		load.Go(func() {
			var state State
			for !stop.Load() {
				gate.RLock()
				set := g.Acquire()
				state.Reset()
				// Both hooks of a request see the same generation.
				var both [2]string
				for i := range both {
					shaped, err := set.Chain("m", "t", EndpointChat).Shape(context.Background(), &Frame{}, &state)
					// A machine that is busy with compiling may run out of time.
					if kind := failureOf(t, err); kind != "" && kind != FailurePoolExhausted && kind != FailureTimeout && kind != FailureBreakerOpen {
						t.Error(err)
						stop.Store(true)
					}
					both[i] = string(shaped.Members)
				}
				if both[0] != both[1] && both[0] != "" && both[1] != "" {
					t.Errorf("one request got %s and %s", both[0], both[1])
					stop.Store(true)
				}
				set.Release()
				gate.RUnlock()
				answered.Add(1)
			}
		})
	}
	paused := func() resources {
		gate.Lock()
		defer gate.Unlock()
		return measure(t)
	}
	var before, after resources
	warm := reloads / 3
	for n := 1; n <= reloads && !stop.Load(); n++ {
		g.reload(generation(n)...)
		if n == warm {
			before = paused()
		}
	}
	after = paused()
	stop.Store(true)
	load.Wait()
	if err := g.Current.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	end := measure(t)
	t.Logf("%d reloads, %d requests; after %d: %+v, after all: %+v, closed: %+v", reloads, answered.Load(), warm, before, after, end)
	if answered.Load() == 0 {
		t.Error("no request was made")
	}
	if after.goroutines > before.goroutines+20 || after.files > before.files+4 {
		t.Errorf("grown from %+v to %+v", before, after)
	}
	if grown := int64(after.heap) - int64(before.heap); grown > 8<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// resources are what a leak would use up.
type resources struct {
	goroutines int
	files      int
	heap       uint64
}

// measure counts them once what is about to end has ended: generations that
// close, and guards of calls that have returned.
func measure(t *testing.T) resources {
	t.Helper()
	for tries, last := 0, 0; tries < 20; tries++ {
		runtime.GC() // finalizers free what a collection finds
		if n := runtime.NumGoroutine(); n == last && tries > 2 {
			break
		} else {
			last = n
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return resources{runtime.NumGoroutine(), len(files), memory.HeapAlloc}
}
