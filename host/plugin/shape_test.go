package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestShapeFailures(t *testing.T) {
	nested := func(depth int) string {
		return `{"fields":{"x_test":` + strings.Repeat("[", depth-2) + strings.Repeat("]", depth-2) + `}}`
	}
	answer := func(result string) []byte { return goodGuest(result).assemble() }
	packed := func(pointer, length uint32) []byte {
		return goodGuest("{}").with(exportShape, opI64(int64(uint64(pointer)<<32|uint64(length)))).assemble()
	}
	for _, c := range []struct {
		name string
		wasm []byte
		kind FailureKind // empty: the call succeeds
		want string      // the members, or part of the message
	}{
		{"nothing", answer(""), "", ""},
		{"empty object", answer("{}"), "", ""},
		{"no fields", answer(`{"fields":{}}`), "", ""},
		{"a field", answer(`{"fields":{"x_test":1}}`), "", `"x_test":1`},
		{"white space", answer(" {\n\"fields\" : {\t\"x_test\" : { \"a\" : [ 1 , 2 ] } , \"carry\"\r: 1 } , \"carry\":\"c\" } "), FailureDeniedKey, `"carry" is not granted`},
		{"nested values", answer(` { "fields" : { "x_test" : { "a" : [ 1 , "}\"" ] } } , "carry" : "c" } `), "", `"x_test":{ "a" : [ 1 , "}\"" ] }`},
		{"depth 16", answer(nested(16)), "", `"x_test":` + strings.Repeat("[", 14) + strings.Repeat("]", 14)},

		{"trap", goodGuest("{}").with(exportShape, opUnreachable).assemble(), FailureTrap, "unreachable"},
		{"trap in buffer", goodGuest("{}").with(exportBuffer, code([]byte{0x20, 0x00}, opI32(255), []byte{0x4a, 0x04, 0x40, 0x00, 0x0b}, opI32(1024))).assemble(), FailureTrap, "unreachable"},
		{"no buffer", goodGuest("{}").with(exportBuffer, code(opI32(0), opI32(1024), []byte{0x20, 0x00}, opI32(255), []byte{0x4a, 0x1b})).assemble(), FailureMemory, "no buffer"},
		{"buffer out of range", goodGuest("{}").with(exportBuffer, code(opI32(1<<20), opI32(1024), []byte{0x20, 0x00}, opI32(255), []byte{0x4a, 0x1b})).assemble(), FailureBadResult, "8-aligned address inside"},
		{"exit", goodGuest("{}").importing(wasiModule, "proc_exit", signature{"i", ""}).
			with(exportShape, code(opI32(7), opCall(0), opI64(0))).assemble(), FailureTrap, "exit_code(7)"},
		{"exit with wazero's code for a timeout", goodGuest("{}").importing(wasiModule, "proc_exit", signature{"i", ""}).
			with(exportShape, code(opI32(-0x10000001), opCall(0), opI64(0))).assemble(), FailureTrap, "exit_code(255)"},
		{"endless recursion", goodGuest("{}").with(exportShape, code([]byte{0x20, 0x00}, opCall(3))).assemble(), FailureOutOfFuel, "used up its 5000000 units"},

		{"pointer out of range", packed(1<<20, 10), FailureBadResult, "outside the memory"},
		{"length out of range", packed(guestResultAt, 1<<17), FailureBadResult, "outside the memory"},
		{"length that wraps", packed(0xffff_fff0, 0xffff_ffff), FailureBadResult, "outside the memory"},
		{"oversized", answer(`{"fields":{"x_test":"` + strings.Repeat("a", maxResultBytes) + `"}}`), FailureBadResult, "at most 16384"},
		{"empty text", answer("   "), FailureBadResult, "empty"},
		{"not JSON", answer(`{"fields":{"x_test":01}}`), FailureBadResult, "not strict JSON"},
		{"cut off", answer(`{"fields":{"x_test":1}`), FailureBadResult, "not strict JSON"},
		{"two documents", answer(`{} {}`), FailureBadResult, "more than one"},
		{"an array", answer(`[]`), FailureBadResult, "JSON object"},
		{"duplicate field", answer(`{"fields":{"x_test":1,"x_test":2}}`), FailureBadResult, "duplicate"},
		{"duplicate member", answer(`{"fields":{},"fields":{}}`), FailureBadResult, "duplicate"},
		{"duplicate deep inside", answer(`{"fields":{"x_test":{"a":1,"\u0061":2}}}`), FailureBadResult, "duplicate"},
		{"invalid UTF-8", answer("{\"fields\":{\"x_test\":\"\xff\"}}"), FailureBadResult, "UTF-8"},
		{"half a surrogate", answer(`{"fields":{"x_test":"\ud800"}}`), FailureBadResult, "surrogate"},
		{"infinite number", answer(`{"fields":{"x_test":1e999}}`), FailureBadResult, "beyond a float64"},
		{"many digits", answer(`{"fields":{"x_test":-` + strings.Repeat("9", 400) + `}}`), FailureBadResult, "beyond a float64"},
		{"depth 17", answer(nested(17)), FailureBadResult, "deeper than 16"},
		{"fields not an object", answer(`{"fields":[]}`), FailureBadResult, "it is an object"},
		{"escaped field name", answer(`{"fields":{"x_tes\u0074":1}}`), FailureBadResult, "backslash"},
		{"escaped member", answer(`{"field\u0073":{}}`), FailureBadResult, "unknown member"},
		{"unknown member", answer(`{"field":{}}`), FailureBadResult, "unknown member"},
		{"long carry", answer(`{"carry":"` + strings.Repeat("a", maxCarryBytes+1) + `"}`), FailureBadResult, "carry"},
		{"carry not a string", answer(`{"carry":5}`), FailureBadResult, "carry"},

		{"field not granted", answer(`{"fields":{"billing":1}}`), FailureDeniedKey, "grants.fields"},
		{"field of the wire", answer(`{"fields":{"usage":1}}`), FailureDeniedKey, "member of the API"},
		{"usage not granted", answer(`{"usage":{}}`), FailureDeniedKey, "not granted"},
		{"document not granted", answer(`{"document":{}}`), FailureDeniedKey, "not granted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			p, err := b.load(t, c.wasm)
			if err != nil {
				t.Fatal(err)
			}
			members, err := shape(t, p)
			if c.kind == "" {
				if members != c.want || err != nil {
					t.Errorf("got %s, %v; want %s", members, err, c.want)
				}
				return
			}
			var failure *Failure
			if !errors.As(err, &failure) {
				t.Fatalf("got %s, %v; want a failure", members, err)
			}
			if failure.Kind != c.kind || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want kind %s and %q", err, c.kind, c.want)
			}
			if members != "" {
				t.Errorf("got members %s beside the error", members)
			}
			if len(b.calls) != 1 || b.calls[0].Failure != c.kind || b.calls[0].Hook != HookShape || b.calls[0].Plugin != "test" {
				t.Errorf("the observer got %+v, want one call of kind %s", b.calls, c.kind)
			}
			if !strings.Contains(b.logged.String(), "kind="+string(c.kind)) {
				t.Errorf("the log says %q, want the failure", b.logged.String())
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	b := newBench(t)
	failing := func(name string, policy Policy, fields ...string) *Plugin {
		return b.mustLoad(t, goodGuest("{}").with(exportShape, opUnreachable), func(s *Spec) {
			s.Name, s.OnError, s.Grants.Fields = name, policy, fields
		})
	}
	sound := b.mustLoad(t, goodGuest(`{"fields":{"x_test":1}}`))
	for _, c := range []struct {
		failing *Plugin
		want    string
	}{
		{failing("open", Open, "billing"), `"x_test":1`},
		{failing("null", Null, "billing", "x_sla_*", "cost"), `"billing":null,"cost":null,"x_test":1`},
		{failing("closed", Closed, "billing"), ``},
	} {
		got, err := shape(t, c.failing, sound)
		if got != c.want || (err != nil) != (c.failing.policy == Closed) {
			t.Errorf("policy %s: got %s, %v; want %s", c.failing.policy, got, err, c.want)
		}
		if parsed, err := ParsePolicy(c.failing.policy.String()); parsed != c.failing.policy || err != nil {
			t.Errorf("policy %s is read as %s, %v", c.failing.policy, parsed, err)
		}
	}
	if _, err := ParsePolicy("maybe"); err == nil {
		t.Error("policy maybe was accepted")
	}
}

// An instance that trapped is not called again: the guest counts its calls
// in memory, traps in the second and would answer in the third.
func TestTrapDiscardsInstance(t *testing.T) {
	// 0: calls so far. The third call of one instance gives a result.
	load, store := []byte{0x28, 0x02, 0x00}, []byte{0x36, 0x02, 0x00}
	count := code(opI32(0), opI32(0), load, opI32(1), []byte{0x6a}, store)            // memory[0]++
	trapAtTwo := code(opI32(0), load, opI32(2), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}) // if memory[0]==2 unreachable
	packed := int64(guestResultAt)<<32 | int64(len(`{"fields":{"x_test":1}}`))
	g := goodGuest(`{"fields":{"x_test":1}}`).with(exportShape, code(count, trapAtTwo, opI64(packed)))
	p := newBench(t).mustLoad(t, g)
	for call, fails := range []bool{false, true, false, true, false} {
		if _, err := shape(t, p); (err != nil) != fails {
			t.Errorf("call %d: got %v, want failure %v", call, err, fails)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	grow := code(opI32(64), opGrow())
	check := code(opI32(-1), []byte{0x46, 0x04, 0x40, 0x00, 0x0b}) // if it is -1, unreachable
	for _, c := range []struct {
		name  string
		limit int64
		body  []byte
		kind  FailureKind
	}{
		{"enough", 66 * wasmPage, code(grow, check, opI64(0)), ""},
		{"one page short", 65 * wasmPage, code(grow, check, opI64(0)), FailureMemory},
		{"short, and the guest goes on", 65 * wasmPage, code(grow, opDrop, opI64(0)), ""},
		{"enough, and a trap", 66 * wasmPage, code(grow, opDrop, opUnreachable), FailureTrap},
		// Room is charged for before it is refused.
		{"more than wasm32 has", 66 * wasmPage, code(opI32(-1), opGrow(), check, opI64(0)), FailureOutOfFuel},
	} {
		p := newBench(t).mustLoad(t, goodGuest("").with(exportShape, c.body), func(s *Spec) { s.MemoryLimit = c.limit })
		_, err := shape(t, p)
		var failure *Failure
		if errors.As(err, &failure); (failure != nil) != (c.kind != "") || failure != nil && failure.Kind != c.kind {
			t.Errorf("%s: got %v, want kind %q", c.name, err, c.kind)
		}
	}
}

func TestRunawayIsStopped(t *testing.T) {
	b := newBench(t)
	p := b.mustLoad(t, goodGuest("{}").with(exportShape, code(opLoopForever, opI64(0))))
	_, err := shape(t, p)
	var failure *Failure
	if !errors.As(err, &failure) || failure.Kind != FailureOutOfFuel {
		t.Fatalf("got %v, want out_of_fuel", err)
	}
	if len(p.pool.idle) != 0 || len(p.pool.permits) != p.pool.size {
		t.Errorf("%d idle instances and %d free permits of %d, want the stopped one gone", len(p.pool.idle), len(p.pool.permits), p.pool.size)
	}
}

func TestClientThatLeavesCostsNoInstance(t *testing.T) {
	p := newBench(t).mustLoad(t, goodGuest(`{"fields":{"x_test":1}}`))
	chain, err := NewChain(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	shaped, err := chain.Shape(ctx, &Frame{}, new(State))
	if want := `"x_test":1`; string(shaped.Members) != want || err != nil {
		t.Errorf("got %s, %v; want %s", shaped.Members, err, want)
	}
}

func TestChain(t *testing.T) {
	b := newBench(t)
	plug := func(name, result string, override bool, fields ...string) *Plugin {
		return b.mustLoad(t, goodGuest(result), func(s *Spec) {
			s.Name, s.Override, s.Grants.Fields = name, override, fields
		})
	}
	first := plug("first", `{"fields":{"a":1,"b":{"a":2},"x_c":3}}`, false, "a", "b", "x_c")
	for _, c := range []struct {
		name    string
		later   *Plugin
		want    string
		refused string
	}{
		{"other fields", plug("p1", `{"fields":{"d":4}}`, false, "d"), `"a":1,"b":{"a":2},"x_c":3,"d":4`, ""},
		{"same field", plug("p2", `{"fields":{"a":4}}`, false, "a"), "", "may both write a field (a, a)"},
		{"a pattern that covers it", plug("p3", `{}`, false, "x_*"), "", "(x_c, x_*)"},
		{"same name", plug("first", `{}`, false, "d"), "", "two plugins are named"},
		{"override, first member", plug("p4", `{"fields":{"a":4}}`, true, "a"), `"b":{"a":2},"x_c":3,"a":4`, ""},
		{"override, middle member", plug("p5", `{"fields":{"b":4}}`, true, "b"), `"a":1,"x_c":3,"b":4`, ""},
		{"override, last member", plug("p6", `{"fields":{"x_c":4}}`, true, "x_*"), `"a":1,"b":{"a":2},"x_c":4`, ""},
		{"override, all", plug("p7", `{"fields":{"x_c":7,"b":8,"a":9}}`, true, "x_*", "a", "b"), `"x_c":7,"b":8,"a":9`, ""},
		{"override that writes nothing", plug("p8", ``, true, "a"), `"a":1,"b":{"a":2},"x_c":3`, ""},
	} {
		chain, err := NewChain(first, c.later)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		shaped, err := chain.Shape(context.Background(), &Frame{}, new(State))
		if string(shaped.Members) != c.want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", c.name, shaped.Members, err, c.want)
		}
	}
}

func TestEmptyChain(t *testing.T) {
	for _, chain := range []*Chain{nil, {}} {
		ctx, frame, state := context.Background(), &Frame{}, new(State)
		shaped, err := chain.Shape(ctx, frame, state)
		if len(shaped.Members) != 0 || err != nil || chain.Has(HookShape) || chain.WantsEvents() || chain.WantsChoices() || chain.WantsDocument(HookShape) {
			t.Errorf("an empty chain gave %+v, %v", shaped, err)
		}
		verdict, err := chain.Request(ctx, frame, state)
		if verdict.Deny != nil || err != nil {
			t.Errorf("an empty chain gave %+v, %v", verdict, err)
		}
		if chunk, err := chain.Chunk(ctx, frame, state, []byte("{}")); string(chunk) != "{}" || err != nil {
			t.Errorf("an empty chain gave %s, %v", chunk, err)
		}
		if finished := chain.Finish(ctx, frame, state); len(finished.Records)+len(finished.Failed) != 0 {
			t.Errorf("an empty chain gave %+v", finished)
		}
	}
}

func TestMask(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		mask                    mask
		shapes, events, choices bool
	}{
		{0, false, false, false},
		{maskShape, true, false, false},
		{maskShape | maskEvents, true, true, false},
		{maskShape | maskChoices, true, false, true},
	} {
		p := b.mustLoad(t, goodGuest(`{"fields":{"x_test":1}}`).with(exportInit, opI32(int32(c.mask))))
		chain, err := NewChain(p)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(chain.Has(HookShape), chain.WantsEvents(), chain.WantsChoices())
		if want := fmt.Sprint(c.shapes, c.events, c.choices); got != want {
			t.Errorf("mask %#x: got %s, want %s", c.mask, got, want)
		}
		if shaped, err := chain.Shape(context.Background(), &Frame{}, new(State)); (len(shaped.Members) > 0) != c.shapes || err != nil {
			t.Errorf("mask %#x: got %s, %v", c.mask, shaped.Members, err)
		}
	}
}

// A guest gets the tables that its mask asks for, and never the document.
func TestGuestSeesTheParts(t *testing.T) {
	frame := &Frame{Model: "m", Choices: make([]Choice, 2), Events: make([]Event, 3), Document: []byte("secret")}
	for _, m := range []mask{maskShape, maskShape | maskEvents, maskShape | maskChoices, maskShape | maskEvents | maskChoices} {
		p := newBench(t).mustLoad(t, goodGuest("").with(exportInit, opI32(int32(m))))
		chain, err := NewChain(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chain.Shape(context.Background(), frame, new(State)); err != nil {
			t.Fatal(err)
		}
		seen := *frame
		seen.ChainID = chain.ID()
		want := seen.append(nil, HookShape, m)
		in, _ := p.pool.take(context.Background())
		got, _ := in.memory.Read(guestBufferAt, uint32(len(want)))
		if !bytes.Equal(got, want) || bytes.Contains(got, frame.Document) {
			t.Errorf("mask %#x: the guest has % x, want % x", m, got, want)
		}
		p.pool.put(in)
	}
}
