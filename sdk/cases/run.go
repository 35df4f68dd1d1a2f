package cases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Runner runs cases on one module.
type Runner struct {
	spec    plugin.Spec // of cases that say nothing of the plugin
	engines [2]*engine  // compiled, interpreted
}

// NewRunner makes a runner for the module that spec names. The other fields of spec
// are what a case does not say itself; options are the server's, of which the runner
// sets those that see or steer calls.
func NewRunner(ctx context.Context, spec plugin.Spec, options plugin.Options) (*Runner, error) {
	r := &Runner{spec: spec}
	for i, name := range []string{"compiled", "interpreted"} {
		var err error
		if r.engines[i], err = newEngine(ctx, name, options, i == 1); err != nil {
			return nil, errors.Join(err, r.Close(ctx))
		}
	}
	return r, nil
}

// Close releases what was compiled. It does so when ctx has ended too: no call is
// under way that it could wait for.
func (r *Runner) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, e := range r.engines {
		if e != nil && e.host != nil {
			errs = append(errs, e.close(ctx))
		}
	}
	return errors.Join(errs...)
}

// Verdict is what came of a case.
type Verdict struct {
	Results []Result
	// Fuel is the most that a call used.
	Fuel int64
	// Faults are what was not as expected, Differences those among them that
	// Update would remove.
	Faults      []string
	Differences int
}

// Run runs a case compiled and interpreted.
func (r *Runner) Run(ctx context.Context, c *Case) (*Verdict, error) {
	spec := r.specOf(c)
	var results [2][]Result
	var refusals, errs [2]error
	var running sync.WaitGroup
	for i, e := range r.engines {
		running.Go(func() { results[i], refusals[i], errs[i] = e.run(ctx, spec, c) })
	}
	running.Wait()
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return nil, err
	}
	v := &Verdict{Results: results[0]}
	if c.Refused != "" || refusals[0] != nil || refusals[1] != nil {
		v.judgeRefusals(c, refusals)
		return v, nil
	}
	for i := range c.Steps {
		v.judge(c, i, &results[0][i], &results[1][i])
	}
	return v, nil
}

// specOf is the plugin as the case configures it.
func (r *Runner) specOf(c *Case) plugin.Spec {
	spec := r.spec
	if c.Plugin != nil {
		name := spec.Name
		if spec = c.Plugin.Spec; spec.Name == "" {
			spec.Name = name
		}
		spec.Path, spec.Wasm = r.spec.Path, r.spec.Wasm
	}
	return spec
}

func (v *Verdict) fault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// judgeRefusals compares why the plugin was not loaded with what is expected.
func (v *Verdict) judgeRefusals(c *Case, refusals [2]error) {
	for i, name := range []string{"compiled", "interpreted"} {
		switch err := refusals[i]; {
		case err == nil && c.Refused != "":
			v.fault("%s, it is loaded; expected is that it is refused with %q", name, c.Refused)
		case err == nil:
			v.fault("%s, it is loaded", name)
		case c.Refused == "":
			v.fault("%s, it is not loaded: %v", name, err)
		case !strings.Contains(err.Error(), c.Refused):
			v.fault("%s, it is refused for another reason than %q: %v", name, c.Refused, err)
		}
	}
}

// judge compares what a step did in both engines with what is expected.
func (v *Verdict) judge(c *Case, i int, compiled, interpreted *Result) {
	got := compiled.lines()
	if other := interpreted.lines(); !slices.Equal(got, other) {
		v.fault("%s: compiled (-) and interpreted (+) it does not do the same:\n%s", c.where(i), diff(got, other))
	}
	if compiled.Fuel != interpreted.Fuel {
		v.fault("%s: it uses %d units of fuel compiled and %d interpreted", c.where(i), compiled.Fuel, interpreted.Fuel)
	}
	if want := c.Steps[i].Expect.lines(); !slices.Equal(want, got) {
		v.Differences++
		why := ""
		if compiled.Why != "" {
			why = "the call failed: " + compiled.Why + "\n"
		}
		v.fault("%s: expected (-) and got (+):\n%s%s", c.where(i), diff(want, got), why)
	}
	if v.Fuel = max(v.Fuel, compiled.Fuel); c.MaxFuel > 0 && compiled.Fuel > c.MaxFuel {
		v.fault("%s: it uses %d units of fuel; at most %d are allowed", c.where(i), compiled.Fuel, c.MaxFuel)
	}
}
