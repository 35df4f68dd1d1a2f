package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Pricer is a plugin with a configuration, outside of a server. It serves one
// Run at a time.
type Pricer struct {
	host    *plugin.Host
	current *plugin.Current
	set     *plugin.Set
	kv      *plugin.MemoryKV
	// moment is when the request under way ended: what the plugin's clock shows
	// and its values expire by.
	moment time.Time
	state  plugin.State

	finishes bool // it has the hook that emits

	records io.Writer // gets what is emitted, if not nil
	line    []byte    // scratch

	tally     tally
	outside   int // requests that the plugin is not for
	noChoices int // requests whose frames lack a table that the plugin reads
	noEvents  int
	fuel      map[plugin.Hook]*spread
}

// kindValues are values that the plugins' store has no room for.
const kindValues = "values_not_kept"

// Load loads the plugin that spec describes, with the server's checks. Of
// options it uses what compiles and what is reserved. The spec's policy and its
// hash don't count: a replay wants all failures, and perhaps another module.
func Load(ctx context.Context, options plugin.Options, spec plugin.Spec, members Members) (*Pricer, error) {
	p := &Pricer{tally: newTally(members), fuel: make(map[plugin.Hook]*spread)}
	now := func() time.Time { return p.moment }
	p.moment = time.Unix(0, 0) // while it loads
	p.kv = plugin.NewMemoryKVAt(now)
	options.KV, options.Now, options.NoBreaker, options.Observer, options.Sampled = p.kv, now, true, p.observe, nil
	spec.OnError, spec.SHA256 = plugin.Closed, ""
	var err error
	if p.host, err = plugin.NewHost(ctx, options); err != nil {
		return nil, err
	}
	p.current = plugin.NewCurrent(p.host)
	if err := p.current.Reload(ctx, []plugin.Spec{spec}); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	p.set = p.current.Acquire()
	chain, err := plugin.NewChain(p.set.Plugins()...)
	if err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	p.finishes = chain.Has(plugin.HookFinish)
	return p, nil
}

// Close ends the plugin.
func (p *Pricer) Close(ctx context.Context) error {
	p.set.Release()
	return errors.Join(p.current.Close(ctx), p.host.Close(ctx))
}

func (p *Pricer) observe(call plugin.Call) {
	s := p.fuel[call.Hook]
	if s == nil {
		s = new(spread)
		p.fuel[call.Hook] = s
	}
	s.add(call.Fuel)
}

// price runs a request's answer and its end through the plugin, and gives what
// it costs, which is valid until the next call.
func (p *Pricer) price(ctx context.Context, frame *plugin.Frame, _ jsontext.Value) ([]item, error) {
	t := &p.tally
	t.bill = t.bill[:0]
	chain := p.set.Chain(frame.Model, frame.Tenant, frame.Endpoint)
	if chain.ID() == "" {
		p.outside++
		return nil, nil
	}
	t.priced++
	p.moment = arrival(frame).Add(time.Duration(max(frame.FinishedNS, frame.LastTokenNS)))
	p.state.Reset()
	if chain.WantsChoices() && len(frame.Choices) == 0 {
		p.noChoices++
	}
	if chain.WantsEvents() && len(frame.Events) == 0 {
		p.noEvents++
	}
	if answered(frame.Outcome) {
		if _, err := chain.Shape(ctx, frame, &p.state); err != nil {
			p.fail(frame, err)
		}
	}
	finished := chain.Finish(ctx, frame, &p.state)
	for _, failure := range finished.Failed {
		p.fail(frame, failure)
	}
	if len(finished.Records) == 0 && len(finished.Failed) == 0 {
		t.noRecord++
	}
	for i := range finished.Records {
		t.add(frame, finished.Records[i].Data)
	}
	if err := p.writeRecords(frame, finished.Records); err != nil {
		return nil, err
	}
	if len(finished.Writes) > 0 {
		if err := p.kv.Write(finished.Writes); err != nil {
			t.note(frame, failed{plugin.HookFinish, kindValues}, err)
		}
	}
	return t.enter(frame)
}

// answered reports whether a request got an answer, which plugins shape: one
// that ended otherwise got none, or the part of a stream.
func answered(o plugin.Outcome) bool {
	return o == plugin.OutcomeStop || o == plugin.OutcomeLength || o == plugin.OutcomeToolCalls
}

// fail counts a call that failed.
func (p *Pricer) fail(frame *plugin.Frame, err error) {
	var failure *plugin.Failure
	if !errors.As(err, &failure) {
		// Chain says that its errors are failures.
		panic(fmt.Sprintf("replay: a call failed with %v", err))
	}
	p.tally.note(frame, failed{failure.Hook, string(failure.Kind)}, failure.Err)
}

// report says what the plugin made of all requests.
func (p *Pricer) report() Priced {
	r := p.tally.report()
	r.SHA256 = p.set.Plugins()[0].Hash() // there is one
	r.Outside, r.WithoutChoices, r.WithoutEvents, r.Finishes = p.outside, p.noChoices, p.noEvents, p.finishes
	for hook, s := range p.fuel {
		r.Fuel[hook.String()] = s.quantiles()
	}
	return r
}
