package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// statuses gives the plugins' status by name.
func (g *generations) statuses() map[string]Status {
	_, list := g.Status()
	all := make(map[string]Status)
	for _, s := range list {
		all[s.Name] = s
	}
	return all
}

// realTrap answers made-up requests and traps on real ones: flag 256 of the
// frame, at byte 8, tells them apart.
func realTrap() *guest {
	synthetic := code(opI32(guestBufferAt), []byte{0x28, 2, 8}, opI32(256), []byte{0x71, 0x45, 0x04, 0x40, 0x00, 0x0b})
	return goodGuest("").with(exportShape, code(synthetic, opI64(0)))
}

func TestStatus(t *testing.T) {
	g := newGenerations(t)
	if generation, list := g.Status(); generation != 0 || len(list) != 0 {
		t.Errorf("at first: generation %d of %d plugins", generation, len(list))
	}
	good, bad := g.spec("good", answering(1)), g.spec("bad", realTrap())
	bad.Grants, bad.OnError, bad.Match.Tenants = Grants{Emit: true}, Open, []string{"t"}
	g.reload(good, bad)
	if err := g.Reload(context.Background(), []Spec{good, good}); err == nil {
		t.Fatal("two plugins of one name were loaded")
	}
	set := g.Acquire()
	frame := &Frame{RequestID: "req-1", AttemptID: "att-1"}
	for range 2 {
		if _, err := set.Chain("m", "t", EndpointChat).Shape(context.Background(), frame, new(State)); err != nil {
			t.Fatal(err)
		}
	}
	set.Release()
	all := g.statuses()
	if s := all["good"]; s.Calls != 2 || s.Failures != 0 || s.LastFailure != nil || s.Instances != 1 || s.Generation != 1 || s.Path != good.Path ||
		fmt.Sprint(s.Hooks) != "[shape]" || !reflect.DeepEqual(s.Grants, good.Grants) || s.Loaded.IsZero() {
		t.Errorf("good: %+v", s)
	}
	if s := all["bad"]; s.Calls != 2 || s.Failures != 2 || s.Recycled != 2 || s.LastFailure == nil || s.LastFailure.Kind != FailureTrap ||
		s.LastFailure.RequestID != "req-1" || s.LastFailure.Time.IsZero() || s.Policy != Open || s.Match.Tenants[0] != "t" || !s.Grants.Emit {
		t.Errorf("bad: %+v, %+v", s, s.LastFailure)
	}
	if !strings.Contains(g.logged.String(), "request_id=req-1 attempt_id=att-1") {
		t.Errorf("the failure's line names no request: %s", g.logged.String())
	}

	// What is taken over stays as it is, the failed reload counted for nothing.
	other := g.spec("other", goodGuest(""))
	other.Grants = Grants{}
	g.reload(good, other)
	generation, list := g.Status()
	if generation != 2 || list[0].Generation != 1 || list[0].Calls != 2 || list[1].Generation != 2 {
		t.Errorf("after the reload: generation %d, %+v", generation, list)
	}
}

func TestDisable(t *testing.T) {
	const name = "p"
	ctx := context.Background()
	// It refuses every request, adds a field, and closes accounts.
	module := func() *guest {
		m := goodGuest(`{"fields":{"x_test":1}}`).with(exportInit, opI32(int32(maskShape|maskRequest|maskChunk|maskFinish)))
		at := int64(4096) << 32
		deny := `{"deny":{"status":403,"code":"no","message":"no"}}`
		m.data = append(m.data, guestData{4096, deny})
		m.functions = append(m.functions,
			guestFunction{exportRequest, exportRule(exportRequest), opI64(at | int64(len(deny)))},
			guestFunction{exportChunk, exportRule(exportChunk), opI64(0)},
			guestFunction{exportFinish, exportRule(exportFinish), opI32(0)})
		return m
	}
	for _, policy := range []Policy{Open, Closed, Null} {
		t.Run(policy.String(), func(t *testing.T) {
			g := newGenerations(t)
			spec := g.spec(name, module())
			spec.OnError = policy
			spec.Grants.Deny, spec.Grants.Rewrite, spec.Grants.ReadResponse = true, true, true
			g.reload(spec)
			set := g.Acquire() // of a request that begins before it is disabled
			defer set.Release()
			hooks := func(s *Set) string {
				chain, state := s.Chain("m", "t", EndpointChat), new(State)
				verdict, err := chain.Request(ctx, &Frame{}, state)
				if err != nil {
					t.Fatal(err)
				}
				shaped, err := chain.Shape(ctx, &Frame{}, state)
				if err != nil {
					t.Fatal(err)
				}
				members := string(shaped.Members)
				chunk, err := chain.Chunk(ctx, &Frame{}, state, []byte(`{"a":1}`))
				if err != nil {
					t.Fatal(err)
				}
				state.Reset()
				failed := chain.Finish(ctx, &Frame{}, state).Failed
				return fmt.Sprintf("denied %v, members %s, chunk %s, failed %v", verdict.Deny != nil, members, chunk, failed)
			}
			const enabled = `denied true, members "x_test":1, chunk {"a":1}, failed []`
			const disabled = `denied false, members , chunk {"a":1}, failed [plugin "p": finish: disabled: an operator has disabled it]`
			expect := func(when string, s *Set, want string) {
				t.Helper()
				if got := hooks(s); got != want {
					t.Errorf("%s:\ngot  %s\nwant %s", when, got, want)
				}
			}
			expect("at first", set, enabled)
			calls := len(g.calls)
			for range 2 { // twice is as good as once
				if err := g.Disable(name); err != nil {
					t.Fatal(err)
				}
			}
			expect("disabled", set, disabled)
			if more := g.calls[calls:]; len(more) != 1 || more[0].Failure != FailureDisabled || more[0].Hook != HookFinish {
				t.Errorf("the observer was told %+v, want the finish that is missing", more)
			}
			if s := g.statuses()[name]; !s.Disabled || s.Breaker != BreakerClosed {
				t.Errorf("status %+v, want disabled with a closed breaker", s)
			}

			changed := spec
			changed.Config = []byte(`{"version":2}`)
			g.reload(changed)
			next := g.Acquire()
			expect("another module of that name", next, disabled)
			if trials, err := g.SelfTest(ctx, name); err != nil || len(trials) != 12 {
				t.Errorf("self-test of a disabled plugin: %v, %v", trials, err)
			}
			if err := g.Enable(name); err != nil {
				t.Fatal(err)
			}
			expect("enabled", next, enabled)
			expect("enabled, an older request", set, enabled)
			next.Release()

			if err := g.Disable(name); err != nil {
				t.Fatal(err)
			}
			g.reload()
			g.reload(spec)
			if g.statuses()[name].Disabled {
				t.Error("a plugin that was removed and comes back is disabled")
			}
		})
	}
}

func TestSelfTest(t *testing.T) {
	g := newGenerations(t)
	// A counter in memory: the first three calls, those of loading, are sound.
	load, store := []byte{0x28, 2, 0}, []byte{0x36, 2, 0}
	count := code(opI32(0), opI32(0), load, opI32(1), []byte{0x6a}, store)
	trap := code(opI32(0), load, opI32(4), []byte{0x46, 0x04, 0x40, 0x00, 0x0b})
	g.reload(g.spec("a", goodGuest("").with(exportShape, code(count, trap, opI64(0)))))
	calls := len(g.calls)
	trials, err := g.SelfTest(context.Background(), "a")
	if err != nil || len(trials) != 3 {
		t.Fatalf("got %+v, %v; want three calls", trials, err)
	}
	for i, trial := range trials {
		if failed := trial.Err != nil; failed != (i == 0) || trial.Hook != HookShape || trial.Fuel == 0 || trial.Duration == 0 || trial.Given == "" {
			t.Errorf("trial %d: %+v; want only the first to fail", i, trial)
		}
	}
	if s := g.statuses()["a"]; len(g.calls) != calls || s.Calls != 0 || s.Failures != 0 {
		t.Errorf("a self-test is counted as calls: %+v", s)
	}
}

func TestUnknownPlugin(t *testing.T) {
	g := newGenerations(t)
	g.reload(g.spec("billing", answering(1)))
	_, selfTest := g.SelfTest(context.Background(), "biling")
	for what, err := range map[string]error{"disable": g.Disable("biling"), "enable": g.Enable("biling"), "self-test": selfTest} {
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), `"biling"; there are billing`) {
			t.Errorf("%s: got %v, want the names that there are", what, err)
		}
	}
	g.reload()
	if err := g.Disable("billing"); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("without plugins: got %v", err)
	}
}

// TestLogNamesTheRequest: each line of a guest says which request it was
// about, and lines of init are about none.
func TestLogNamesTheRequest(t *testing.T) {
	b := newBench(t)
	line := func(index uint32) []byte { return code(opI32(2), opI32(guestResultAt), opI32(5), opCall(index)) }
	g := hookGuest(HookShape, "").importing(importModule, "log", signature{"iii", ""})
	g.data = []guestData{{guestResultAt, "hello"}}
	g.with(exportInit, code(line(0), opI32(int32(maskShape)))).with(exportShape, code(line(0), opI64(0)))
	p := b.mustLoad(t, g)
	chain := newChain(t, p)
	for i := range 3 {
		frame := &Frame{RequestID: fmt.Sprintf("req-%d", i), AttemptID: fmt.Sprintf("att-%d", i)}
		if _, err := chain.Shape(context.Background(), frame, new(State)); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(b.logged.String()) {
		if strings.Contains(line, `msg="plugin log"`) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 4 || strings.Contains(lines[0], "request_id") || !strings.Contains(lines[0], "text=hello") {
		t.Fatalf("the log says\n%s\nwant one line of init and three of requests", b.logged.String())
	}
	for i, l := range lines[1:] {
		if want := fmt.Sprintf("plugin=test text=hello hook=shape request_id=req-%d attempt_id=att-%d dropped=0", i, i); !strings.Contains(l, "level=WARN") || !strings.Contains(l, want) {
			t.Errorf("got %s, want a warning with %s", l, want)
		}
	}
}

// TestInitFailsLater: a guest whose init went well when it was loaded, and fails
// in the instance that a request needs, is a failure of its kind.
func TestInitFailsLater(t *testing.T) {
	b := newBench(t)
	moment := time.Unix(1000, 0)
	b.now = func() time.Time { return moment }
	g := goodGuest(`{"fields":{"x_test":1}}`).importing(importModule, "now_unix_ns", signature{"", "I"})
	later := code(opCall(0), opI64(moment.UnixNano()), []byte{0x55, 0x04, 0x40, 0x00, 0x0b}) // i64.gt_s if unreachable
	g.with(exportInit, code(later, opI32(int32(maskShape))))
	p := b.mustLoad(t, g, func(s *Spec) { s.Isolation, s.Grants.Clock = Fresh, true })
	if got, err := shape(t, p); got != `"x_test":1` || err != nil { // by the instance of the load
		t.Fatalf("got %s, %v", got, err)
	}
	moment = moment.Add(time.Second)
	_, err := shape(t, p)
	if kind := failureOf(t, err); kind != FailureInit || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("got %v, want a failure of kind init", err)
	}
	if last := b.calls[len(b.calls)-1]; last.Failure != FailureInit || last.Fuel != 0 || last.Recycled {
		t.Errorf("the observer was told %+v", last)
	}
	moment = moment.Add(-time.Second)
	if got, err := shape(t, p); got != `"x_test":1` || err != nil { // no instance was lost
		t.Errorf("afterwards: got %s, %v", got, err)
	}
}

// TestLaterInitsAreBounded: an init that loops in the instance that a request
// waits for is stopped soon, by what the first one took.
func TestLaterInitsAreBounded(t *testing.T) {
	b := newBench(t)
	moment := time.Unix(1000, 0)
	b.now = func() time.Time { return moment }
	g := goodGuest("").importing(importModule, "now_unix_ns", signature{"", "I"})
	later := code(opCall(0), opI64(moment.UnixNano()), []byte{0x55, 0x04, 0x40}, opLoopForever, []byte{0x0b}) // i64.gt_s if loop end
	g.with(exportInit, code(later, opI32(int32(maskShape))))
	p := b.mustLoad(t, g, func(s *Spec) { s.Isolation, s.Grants.Clock = Fresh, true })
	if _, err := shape(t, p); err != nil { // by the instance of the load
		t.Fatal(err)
	}
	moment = moment.Add(time.Second)
	_, err := shape(t, p)
	if want := fmt.Sprintf("used up its %d units", 2*p.startSpent+defaultFuel); failureOf(t, err) != FailureInit || !strings.Contains(err.Error(), want) || p.startSpent == 0 {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestGigabyteOfLog: with fuel for it a guest may write half a million lines of
// 2 KiB in a call. The log gets 50, and ten for each second that this takes.
func TestGigabyteOfLog(t *testing.T) {
	b := newBench(t)
	g := goodGuest("").importing(importModule, "log", signature{"iii", ""})
	counter := code(opI32(guestResultAt), opI32(guestResultAt), []byte{0x28, 2, 0}, opI32(1), []byte{0x6a, 0x36, 2, 0})
	g.with(exportShape, loopForever(counter, opI32(1), opI32(0), opI32(maxLogLine), opCall(0)))
	p := b.mustLoad(t, g, func(s *Spec) { s.Fuel = 1 << 30 / maxLogLine * 5200 })
	in, err := p.instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close(context.Background())
	began := time.Now()
	failure := in.run(context.Background(), HookShape, &Frame{RequestID: "req-1"}, new(result))
	took := time.Since(began)
	written, _ := in.memory.ReadUint32Le(guestResultAt)
	if failure == nil || failure.Kind != FailureOutOfFuel || int(written)*maxLogLine < 1<<30 {
		t.Fatalf("got %v after %d lines, want a gigabyte of them", failure, written)
	}
	lines := strings.Count(b.logged.String(), `msg="plugin log"`)
	if most := logBurst + 1 + int(took.Seconds()*logPerSec); lines < logBurst || lines > most {
		t.Errorf("%d lines in the log, want %d to %d", lines, logBurst, most)
	}
	t.Logf("%d lines in %v", written, took)
}
