package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
)

// rig is an engine on a toy that draws itself, whose steps run one by one.
type rig struct {
	t      *testing.T
	toy    *toy
	device *device
	async  *backendtest.Async
	engine *Engine
	steps  []Step // read after Close
}

// newRig makes one; the device takes a microsecond a step by its own clock.
func newRig(t *testing.T, change func(*Options)) *rig {
	r := &rig{t: t, toy: newToy()}
	r.toy.gate = make(chan struct{})
	r.device = &device{toy: r.toy, busy: time.Microsecond}
	r.async = backendtest.NewAsync(r.device, 64, 20)
	r.engine = newEngine(t, r.async, func(o *Options) {
		o.Listener.Step = func(s Step) { r.steps = append(r.steps, s) }
		if change != nil {
			change(o)
		}
	})
	return r
}

// run lets the device compute n steps more.
func (r *rig) run(n int) {
	for range n {
		r.toy.gate <- struct{}{}
	}
}

// rest lets the device compute all that is left.
func (r *rig) rest() { close(r.toy.gate) }

// ends checks how a choice has ended.
func (r *rig) ends(s *Stream, text string, finish FinishReason, err error) Life {
	r.t.Helper()
	a := collect(r.t, s)[0]
	if a.text != text || a.last.Finish != finish || !errors.Is(a.last.Err, err) {
		r.t.Errorf("%q ended with %v and %v, want %q, %v and %v", a.text, a.last.Finish, a.last.Err, text, finish, err)
	}
	return a.last.Life
}

// TestStepsAhead: while the device computes, the next step is under way, until somebody
// reaches a limit that can be foreseen; a row is computed in vain only for an end that
// could not. Usage, steps and stamps are those of what came.
func TestStepsAhead(t *testing.T) {
	r := newRig(t, nil)
	stop, limit, text := ask("v"), ask("a"), ask("m")
	stop.IgnoreEOS, stop.StopTokens = true, []int32{'z'}
	limit.MaxTokens = 3
	text.Stop = []string{"pq"}
	streams := []*Stream{submit(t, r.engine, stop), submit(t, r.engine, limit), submit(t, r.engine, text)}
	r.rest()
	lives := []Life{r.ends(streams[0], "wxy", Stop, nil), r.ends(streams[1], "bcd", Length, nil), r.ends(streams[2], "no", Stop, nil)}
	r.engine.Close()
	var attributed, last time.Duration
	rows, prompt, sampled := 0, 0, 0
	for _, s := range r.steps {
		rows, prompt, sampled = rows+s.Rows, prompt+s.Prompt, sampled+s.Sampled
		if s.Start < last {
			t.Errorf("a step begins at %v, and the one before ended at %v", s.Start, last)
		}
		last = s.End
	}
	for i, want := range []int{4, 3, 4} {
		l := lives[i]
		attributed += l.DeviceTime
		if l.CompletionTokens != want || !(0 < l.Scheduled && l.Scheduled < l.First && l.First < l.Last && l.Last == l.Finished) {
			t.Errorf("life %d: %+v, want %d tokens and stamps in order", i, l, want)
		}
	}
	if r.async.Ahead < 2 {
		t.Errorf("%d of %d steps were queued ahead, want all but a few", r.async.Ahead, r.async.Queued)
	}
	if prompt != 3 || sampled != 11 || rows < 11 || rows > 13 {
		t.Errorf("%d rows for %d prompt tokens and %d drawn ones, want 3, 11, and at most 2 rows in vain", rows, prompt, sampled)
	}
	// The steps that computed for nobody are nobody's.
	if steps := time.Duration(r.toy.steps.Load()); attributed > steps*time.Microsecond || attributed < (steps-1)*time.Microsecond {
		t.Errorf("%v are attributed of %d steps of a microsecond", attributed, steps)
	}
}

// TestLeavingWithStepsUnderWay: readers that leave, and deadlines that pass, end what the
// device still computes, and others go on.
func TestLeavingWithStepsUnderWay(t *testing.T) {
	for _, why := range []string{"abort", "deadline"} {
		t.Run(why, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.KVCacheMemory = 64 })
			leaving, staying := ask("a"), ask("r")
			if why == "deadline" {
				leaving.Deadline = r.engine.Now() + 12*time.Millisecond // a reading is one
			}
			s1, s2 := submit(t, r.engine, leaving), submit(t, r.engine, staying)
			r.run(3)
			if why == "abort" {
				s1.Abort()
			}
			r.rest()
			a := collect(t, s1)[0]
			if a.last.Finish != Abort || len(a.tokens) == 0 || len(a.tokens) > 12 {
				t.Errorf("ended with %v after %d tokens, want abort before the end", a.last.Finish, len(a.tokens))
			}
			r.ends(s2, "stuvwxyz", Stop, nil)
			r.ends(submit(t, r.engine, ask("x")), "yz", Stop, nil)
			r.engine.Close()
			if r.async.Ahead == 0 {
				t.Error("no step was queued ahead")
			}
		})
	}
}

// TestFailureWithAStepUnderWay: a step that fails ends its sequences; those that came
// into the step behind it begin again, and find nothing of what failed.
func TestFailureWithAStepUnderWay(t *testing.T) {
	const prompt = "abcdefghijklmnop"
	failing, later := ask(prompt), ask(prompt+"q")
	streams, submitted := make(chan *Stream, 1), false
	var r *rig
	r = newRig(t, func(o *Options) {
		o.BlockSize = 8
		o.Listener.Event = func(q *Request, e Event, _ *Life) {
			if e.Kind != FirstToken || q != failing || submitted {
				return
			}
			// The second step waits at the gate. The other request is in the third.
			submitted = true
			r.toy.fail.Store(true)
			s, err := r.engine.Submit(later)
			if err != nil {
				t.Error(err)
			}
			streams <- s
		}
	})
	s1 := submit(t, r.engine, failing)
	r.run(1)
	s2 := <-streams
	r.rest()
	r.ends(s1, "q", Failed, errToy)
	if life := r.ends(s2, "rstuvwxyz", Stop, nil); life.Preemptions != 1 || life.CachedTokens != 16 {
		t.Errorf("preempted %d times, and found %d tokens at first; want 1 and 16", life.Preemptions, life.CachedTokens)
	}
	if life := r.ends(submit(t, r.engine, ask(prompt)), "qrstuvwxyz", Stop, nil); life.CachedTokens != 8 {
		t.Errorf("%d tokens found, want the block of the one that began again", life.CachedTokens)
	}
}

// TestLostWithAStepUnderWay: all ends with the reason, also what is under way.
func TestLostWithAStepUnderWay(t *testing.T) {
	r := newRig(t, nil)
	s1, s2 := submit(t, r.engine, ask("a")), submit(t, r.engine, ask("b"))
	r.run(2)
	r.device.lose.Store(true)
	r.rest()
	for _, s := range []*Stream{s1, s2} {
		if a := collect(t, s)[0]; a.last.Finish != Failed || !errors.Is(a.last.Err, backend.ErrLost) {
			t.Errorf("ended with %v and %v, want ErrLost", a.last.Finish, a.last.Err)
		}
	}
	if _, err := r.engine.Submit(ask("c")); !errors.Is(err, ErrLost) {
		t.Errorf("submit: %v, want ErrLost", err)
	}
}

// TestCloseWithStepsUnderWay: all blocks come back, which newEngine checks.
func TestCloseWithStepsUnderWay(t *testing.T) {
	r := newRig(t, nil)
	s := submit(t, r.engine, ask("a"))
	r.run(2)
	go r.rest()
	r.engine.Close()
	if a := collect(t, s)[0]; a.last.Finish != Abort && a.last.Finish != Stop {
		t.Errorf("ended with %v, want abort", a.last.Finish)
	}
}

// TestForeseeable: what the next step depends on, and no more, makes the loop wait.
func TestForeseeable(t *testing.T) {
	for _, c := range []struct {
		name    string
		waits   bool
		change  func(*Request)
		options func(*Options)
	}{
		{name: "greedy"},
		{name: "temperature and cuts", change: func(r *Request) {
			r.Sampling.Temperature, r.Sampling.TopK, r.Sampling.TopP, r.Sampling.MinP = 0.1, 9, 0.9, 0.1
		}},
		{name: "bias", change: func(r *Request) { r.Sampling.Bias = map[int32]float32{'q': 1} }},
		{name: "log probabilities", change: func(r *Request) { r.Sampling.Logprobs = 20 }},
		{name: "more than the device has", waits: true, change: func(r *Request) { r.Sampling.Logprobs = 21 }},
		{name: "presence penalty", waits: true, change: func(r *Request) { r.Sampling.PresencePenalty = 0.1 }},
		{name: "repetition penalty", waits: true, change: func(r *Request) { r.Sampling.RepetitionPenalty = 1.1 }},
		{name: "bans to the end", waits: true, change: func(r *Request) { r.MinTokens, r.MaxTokens = 20, 20 }},
		{name: "guesses", waits: true, options: func(o *Options) {
			o.Speculative.Method, o.Speculative.NumTokens = SpeculativeNgram, 4
		}},
		{name: "more sequences than the device draws from", waits: true, options: func(o *Options) { o.MaxNumSeqs = 65 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.options)
			q := ask("abc")
			q.IgnoreEOS, q.MaxTokens = true, 20
			if c.change != nil {
				c.change(q)
			}
			s := submit(t, r.engine, q)
			r.rest()
			collect(t, s)
			r.engine.Close()
			if ahead := r.async.Ahead; (ahead == 0) != c.waits {
				t.Errorf("%d of %d steps were queued ahead, want none: %t", ahead, r.async.Queued, c.waits)
			}
		})
	}
}

// TestPrefixesOfStepsAhead: the prefix cache holds what it would hold if the loop waited
// for each step, and nothing of a token that came to nothing.
func TestPrefixesOfStepsAhead(t *testing.T) {
	cached := func(ahead bool) []int {
		r := newRig(t, func(o *Options) { o.BlockSize = 8 })
		r.rest()
		var counts []int
		for i, text := range []string{"abcdefg", "abcdefghij", "abcdefghijklmnopqrs", "abcdefghijklmnopqrstuvwx", "abcdefghijklmnopx"} {
			q := ask(text)
			q.IgnoreEOS, q.MaxTokens, q.ID = true, 12, fmt.Sprint(i)
			if !ahead {
				q.Sampling.PresencePenalty = 0.01 // the loop waits
			}
			a := collect(t, submit(t, r.engine, q))[0]
			counts = append(counts, a.last.Life.CachedTokens, a.last.Life.CacheWriteTokens)
		}
		r.engine.Close()
		if (r.async.Ahead > 0) != ahead {
			t.Errorf("%d steps were queued ahead, want some: %t", r.async.Ahead, ahead)
		}
		return counts
	}
	if got, want := cached(true), cached(false); !slices.Equal(got, want) {
		t.Errorf("tokens cached and written: %d, want %d", got, want)
	}
}
