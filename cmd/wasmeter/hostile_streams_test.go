package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gaps are the times between two tokens of streams.
type gaps struct {
	mu      sync.Mutex // guards the fields below
	streams int        // that were whole
	without int        // of them, the field of their own plugin, which was never due to fail
	tokens  int
	longest time.Duration
	late    int // above 50 ms
}

const mostGap = 50 * time.Millisecond

func (g *gaps) String() string {
	return fmt.Sprintf("longest gap %6.1f ms, %4d of %d above 50 ms", float64(g.longest.Microseconds())/1000, g.late, g.tokens)
}

// stream reads a stream of n tokens by the model good.
func (p *process) stream(n int, into *gaps) error {
	c, err := p.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(postBytes("/v1/chat/completions", fmt.Sprintf(
		`{"model":"good","messages":[{"role":"user","content":"hello"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, n))); err != nil {
		return err
	}
	var last time.Time
	var longest time.Duration
	tokens, late, usage, field := 0, 0, false, false
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("stream broken after %d events: %w", tokens, err)
		}
		if strings.HasPrefix(line, "data: [DONE]") {
			break
		}
		if !strings.HasPrefix(line, "data: ") {
			continue
		}
		moment := time.Now()
		if tokens > 0 {
			gap := moment.Sub(last)
			longest = max(longest, gap)
			if gap > mostGap {
				late++
			}
		}
		last = moment
		tokens++
		usage = usage || strings.Contains(line, fmt.Sprintf(`"completion_tokens":%d`, n))
		field = field || strings.Contains(line, `"x_test":1`)
	}
	if !usage {
		return fmt.Errorf("a stream without its %d tokens", n)
	}
	into.mu.Lock()
	defer into.mu.Unlock()
	into.streams++
	if !field {
		into.without++
	}
	into.tokens += tokens
	into.longest = max(into.longest, longest)
	into.late += late
	return nil
}

// beside runs 64 streams of n tokens while each hostile plugin is met by a number
// of clients, without a pause and until the streams end; it gives the streams'
// gaps and the answers that these clients had.
func (p *process) beside(t *testing.T, n int, list []hostile, clients int) (*gaps, map[string]int) {
	t.Helper()
	var g gaps
	var streams, attack sync.WaitGroup
	var over atomic.Bool
	var mu sync.Mutex // guards answers
	answers := make(map[string]int)
	for _, h := range list {
		request := postBytes("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":1}`, h.name))
		for range clients {
			attack.Go(func() {
				c, err := p.dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				answered := 0
				for !over.Load() {
					if err := c.do(request); err != nil { // any status but 200 is an error
						t.Errorf("beside %s: %v", h.name, err)
						return
					}
					answered++
				}
				mu.Lock()
				defer mu.Unlock()
				answers[h.name] += answered
			})
		}
	}
	for range 64 {
		streams.Go(func() {
			if err := p.stream(n, &g); err != nil {
				t.Error(err)
			}
		})
	}
	streams.Wait()
	over.Store(true)
	attack.Wait()
	return &g, answers
}

// startBeside starts a server of good and of hostile plugins; a step takes 10 ms.
func startBeside(t *testing.T, list []hostile) *process {
	t.Helper()
	v := newVillains(t, append([]hostile{{name: "good", crime: wasmGood}}, list...))
	v.configure(t, "open", "")
	return start(t, "--config="+v.file(), "--sim-step-base=10ms", "--sim-prefill-per-token=0", "--sim-per-sequence=0", "--max-num-seqs=256", "--log-level=warn")
}

// TestStreamsBesideHostiles: 64 streams have all their tokens beside plugins that
// never end by themselves, and whoever meets one has an answer. How long the gaps
// are is for TestGapsBesideHostiles.
func TestStreamsBesideHostiles(t *testing.T) {
	list := endless()
	p := startBeside(t, list)
	g, answers := p.beside(t, 60, list, 1)
	t.Log(g)
	if g.streams != 64 {
		t.Errorf("%d of 64 streams are whole", g.streams)
	}
	text := p.scrape(t)
	for _, h := range list {
		if answers[h.name] == 0 {
			t.Errorf("nobody who met %s had an answer", h.name)
		}
		if !strings.Contains(text, fmt.Sprintf(`wasmeter_plugin_failures_total{hook="shape",kind="out_of_fuel",plugin="%s"}`, h.name)) {
			t.Errorf("%s was not stopped for its fuel", h.name)
		}
	}
}

// scrape reads /metrics of the API's address.
func (p *process) scrape(t *testing.T) string {
	t.Helper()
	_, text := (&office{url: p.url}).read(t, "GET", "/metrics", "")
	return text
}

// patient is a plugin that does its worst in every fifth call of an instance:
// just seldom enough that the breaker never opens.
func patient(h hostile) hostile {
	h.name = "patient-" + h.name
	count := wasm(wasmI32(64), wasmI32(64), wasmLoad(0), wasmI32(1), []byte{0x6a}, wasmStore(0))
	sound := wasm(wasmI32(64), wasmLoad(0), wasmI32(5), []byte{0x47, 0x04, 0x40}, wasmGood, wasmReturn, []byte{0x0b})
	h.crime = wasm(count, sound, h.crime)
	return h
}

// TestGapsBesideHostiles measures the gaps between tokens of 64 streams: beside
// each plugin that never ends by itself, beside all of them, and beside those that
// the breaker does not see; before each, the same streams alone, which says how
// quiet the machine is.
func TestGapsBesideHostiles(t *testing.T) {
	heavy(t)
	const tokens = 500 // five seconds
	t.Logf("%d cores, %s", runtime.NumCPU(), runtime.GOARCH)
	round := func(t *testing.T, list []hostile, clients int) (alone, beside *gaps) {
		p := startBeside(t, list)
		defer func() {
			_ = p.Process.Kill() // the next one shall have the machine to itself
			_ = p.Wait()
		}()
		alone, _ = p.beside(t, tokens, nil, 0)
		beside, answers := p.beside(t, tokens, list, clients)
		met := 0
		for _, n := range answers {
			met += n
		}
		t.Logf("alone: %s; beside: %s; stopped after %5.1f ms on average, %d answers, %d streams without their own plugin's field",
			alone, beside, 1000*meanDuration(t, p.scrape(t), list), met, beside.without)
		return alone, beside
	}
	checked := func(name string, list []hostile, clients int) {
		t.Run(name, func(t *testing.T) {
			alone, beside := round(t, list, clients)
			if beside.late > 0 && alone.longest < mostGap/2 {
				t.Errorf("%d gaps above 50 ms; alone the longest was %s", beside.late, alone.longest)
			}
		})
	}
	for _, h := range endless() {
		checked(h.name, []hostile{h}, 2)
	}
	checked("all", endless(), 1)
	// What follows is more than the breaker can help against.
	checked("patient loop", []hostile{patient(endless()[0])}, 4)
	var all []hostile
	for _, h := range endless() {
		all = append(all, patient(h))
	}
	checked("patient all", all, 1)
}

// meanDuration is the mean time in seconds of the plugins' calls. Those that the
// breaker left out have no time.
func meanDuration(t *testing.T, text string, list []hostile) float64 {
	t.Helper()
	sum, count := 0., 0.
	for _, h := range list {
		for suffix, to := range map[string]*float64{"sum": &sum, "count": &count} {
			_, rest, found := strings.Cut(text, fmt.Sprintf("\nwasmeter_plugin_duration_seconds_%s{hook=\"shape\",plugin=%q} ", suffix, h.name))
			line, _, _ := strings.Cut(rest, "\n")
			v, err := strconv.ParseFloat(line, 64)
			if !found || err != nil {
				t.Fatalf("no duration of %s: %v", h.name, err)
			}
			*to += v
		}
	}
	return sum / count
}
