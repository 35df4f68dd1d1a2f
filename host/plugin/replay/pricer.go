package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	members  Members
	bill     []item // of the request under way

	priced    int
	outside   int // requests that the plugin is not for
	noRecord  int // requests for which it emitted nothing, and did not fail
	noAmount  int // records that are not about money
	noChoices int // requests whose frames lack a table that the plugin reads
	noEvents  int
	failures  map[failed]*Failures
	fuel      map[plugin.Hook]*spread
	invoice   invoice
}

// item is what one request costs in one currency.
type item struct {
	currency string
	records  int
	amount   Amount
}

// failed is a way to fail.
type failed struct {
	hook plugin.Hook
	kind string
}

// Failures are the failures of one kind.
type Failures struct {
	Hook  string `json:"hook"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Example is what went wrong the first time, and with which attempt.
	Example string `json:"example"`
	Attempt string `json:"attempt_id"`
}

// kindAmount is a record whose amount can't be read; kindValues are values that
// the store has no room for.
const kindAmount, kindValues = "bad_amount", "values_not_kept"

// Load loads the plugin that spec describes, with the server's checks. Of
// options it uses what compiles and what is reserved. The spec's policy and its
// hash don't count: a replay wants all failures, and perhaps another module.
func Load(ctx context.Context, options plugin.Options, spec plugin.Spec, members Members) (*Pricer, error) {
	p := &Pricer{
		members:  members,
		failures: make(map[failed]*Failures),
		fuel:     make(map[plugin.Hook]*spread),
		invoice:  invoice{make(map[rowKey]*Row)},
	}
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
func (p *Pricer) price(ctx context.Context, frame *plugin.Frame) ([]item, error) {
	p.bill = p.bill[:0]
	chain := p.set.Chain(frame.Model, frame.Tenant, frame.Endpoint)
	if chain.ID() == "" {
		p.outside++
		return nil, nil
	}
	p.priced++
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
		p.noRecord++
	}
	p.read(frame, finished.Records)
	if len(finished.Writes) > 0 {
		if err := p.kv.Write(finished.Writes); err != nil {
			p.note(frame, failed{plugin.HookFinish, kindValues}, err)
		}
	}
	for i := range p.bill {
		if err := p.invoice.add(frame.Tenant, frame.Model, &p.bill[i]); err != nil {
			return nil, err
		}
	}
	return p.bill, nil
}

// read puts the amounts of a request's records together.
func (p *Pricer) read(frame *plugin.Frame, records []plugin.Record) {
	for i := range records {
		c, err := p.members.read(records[i].Data)
		switch {
		case errors.Is(err, errNoAmount):
			p.noAmount++
			continue
		case err != nil:
			p.note(frame, failed{plugin.HookFinish, kindAmount}, err)
			continue
		}
		at := slices.IndexFunc(p.bill, func(it item) bool { return it.currency == c.currency })
		if at < 0 {
			at = len(p.bill)
			p.bill = append(p.bill, item{currency: c.currency})
		}
		p.bill[at].records++
		p.bill[at].amount.Add(&c.amount)
	}
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
	p.note(frame, failed{failure.Hook, string(failure.Kind)}, failure.Err)
}

func (p *Pricer) note(frame *plugin.Frame, way failed, err error) {
	f := p.failures[way]
	if f == nil {
		f = &Failures{Hook: way.hook.String(), Kind: way.kind, Example: err.Error(), Attempt: frame.AttemptID}
		p.failures[way] = f
	}
	f.Count++
}

// report says what the plugin made of all requests.
func (p *Pricer) report() Priced {
	loaded := p.set.Plugins()[0] // there is one
	rows := p.invoice.list()
	r := Priced{
		SHA256: loaded.Hash(), Requests: p.priced, Outside: p.outside, WithoutRecord: p.noRecord, WithoutAmount: p.noAmount,
		WithoutChoices: p.noChoices, WithoutEvents: p.noEvents, Finishes: p.finishes,
		Failures: []Failures{}, Fuel: make(map[string]Quantiles), Rows: rows, Totals: totals(rows),
	}
	for _, f := range p.failures {
		r.Failures = append(r.Failures, *f)
	}
	slices.SortFunc(r.Failures, func(a, b Failures) int { return cmp.Or(cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Kind, b.Kind)) })
	for hook, s := range p.fuel {
		r.Fuel[hook.String()] = s.quantiles()
	}
	return r
}
