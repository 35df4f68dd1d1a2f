package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Options steer a run.
type Options struct {
	// Calls is how often the check "endurance" calls the guest. 0: 1,000,000.
	Calls int
}

const defaultCalls = 1_000_000

// Result is how one check went.
type Result struct {
	Check string
	Err   error // what is wrong, nil for nothing
}

// kit is what a check works with.
type kit struct {
	*sandbox
	served served
	wasm   []byte
	calls  int
}

func (k *kit) close(ctx context.Context) error {
	err := k.sandbox.close(ctx)
	if k.served.host != nil {
		err = errors.Join(err, k.served.host.Close(ctx))
	}
	if k.served.cache != "" {
		err = errors.Join(err, os.RemoveAll(k.served.cache))
	}
	return err
}

// checks in the order in which they run.
var checks = [...]struct {
	name string
	run  func(*kit, context.Context) error
}{
	{"exports", (*kit).checkExports},
	{"fields", (*kit).checkFields},
	{"strings", (*kit).checkStrings},
	{"text", (*kit).checkText},
	{"tables", (*kit).checkTables},
	{"numbers", (*kit).checkNumbers},
	{"nothing", (*kit).checkNothing},
	{"buffer", (*kit).checkBuffer},
	{"later version", (*kit).checkLater},
	{"earlier version", (*kit).checkEarlier},
	{"torn frames", (*kit).checkTorn},
	{"config", (*kit).checkConfig},
	{"torn config", (*kit).checkTornConfig},
	{"refusal", (*kit).checkRefusal},
	{"trap", (*kit).checkTrap},
	{"memory", (*kit).checkMemory},
	{"loop", (*kit).checkLoop},
	{"answer", (*kit).checkAnswer},
	{"request", (*kit).checkRequest},
	{"chunk", (*kit).checkChunk},
	{"imports", (*kit).checkImports},
	{"failing imports", (*kit).checkFailingImports},
	{"bad pointers", (*kit).checkBadPointers},
	{"endurance", (*kit).checkEndurance},
	{"in the server", (*kit).checkServed},
	{"imports of the server", (*kit).checkServedImports},
	{"failures in the server", (*kit).checkServedFailures},
}

// Run runs every check on a guest. Its error is a module that can't be run at
// all.
func Run(ctx context.Context, wasm []byte, options Options) ([]Result, error) {
	calls := options.Calls
	if calls == 0 {
		calls = defaultCalls
	}
	k, err := newKit(ctx, wasm, calls)
	if err != nil {
		return nil, err
	}
	results := make([]Result, 0, len(checks))
	for _, check := range checks {
		k.clear()
		results = append(results, Result{Check: check.name, Err: check.run(k, ctx)})
	}
	return results, k.close(ctx)
}

func newKit(ctx context.Context, wasm []byte, calls int) (*kit, error) {
	s, err := newSandbox(ctx, wazero.NewRuntimeConfig(), wasm)
	if err != nil {
		return nil, err
	}
	return &kit{sandbox: s, wasm: wasm, calls: calls}, nil
}

// with runs use on an instance whose config says what to do.
func (k *kit) with(ctx context.Context, do string, use func(*guest) error) error {
	return k.withConfig(ctx, fmt.Sprintf(`{"do":%s}`, quote(do)), use)
}

func (k *kit) withConfig(ctx context.Context, config string, use func(*guest) error) error {
	g, err := k.instantiate(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(use(g), g.close(ctx))
}

// wants compares a hook's document.
func (g *guest) wants(ctx context.Context, hook string, frame []byte, want string) error {
	got, err := g.document(ctx, hook, frame)
	if err != nil {
		return err
	}
	return differ(hook, string(got), want)
}

// differ says where two texts differ, nil if they don't.
func differ(what, got, want string) error {
	if got == want {
		return nil
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	around := func(text string) string {
		from, to := max(at-40, 0), min(at+40, len(text))
		return fmt.Sprintf("%q", text[from:to])
	}
	return fmt.Errorf("%s: %d bytes, want %d; they differ at byte %d: got … %s …, want … %s …", what, len(got), len(want), at, around(got), around(want))
}

// echoes compares the echo of frames.
func (k *kit) echoes(ctx context.Context, frames map[string]*plugin.Frame) error {
	return k.with(ctx, "echo", func(g *guest) error {
		var faults []error
		for name, f := range frames {
			if err := g.wants(ctx, "shape", f.Append(nil, plugin.HookShape), wantEcho(f, plugin.HookShape)); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", name, err))
			}
		}
		return errors.Join(faults...)
	})
}

// same compares what happened line by line.
func same(what string, got, want []string) error {
	return differ(what, strings.Join(got, "\n"), strings.Join(want, "\n"))
}
