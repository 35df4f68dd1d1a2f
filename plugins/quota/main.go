// Command quota is a plugin that bounds how many tokens each tenant uses in a
// window of time. README.md has its rules.
package main

import (
	"strconv"

	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// options is the configuration of this instance.
var options = defaults()

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{
		Init:    func(config []byte) error { return options.read(config) },
		Request: func(r wasmeter.Request, out *wasmeter.Answer) { options.request(r, out) },
		Finish:  func(r wasmeter.Request) error { return options.finish(r) },
	})
}

// request sets aside what the request may use at most, in every limit of its
// class, or refuses it. What it has set aside it carries to finish.
func (o *config) request(r wasmeter.Request, out *wasmeter.Answer) {
	t := o.tierOf(r)
	if len(t.limits) == 0 {
		return
	}
	need := o.reservation(r)
	now := r.ArrivalUnixNS() / nsPerSecond
	for i := range t.limits {
		if need > t.limits[i].tokens {
			o.refuseTooLarge(r, out, &t.limits[i], t, need)
			return
		}
	}
	// A look before anything is set aside, so that a client who asks again and
	// again takes no room from others for a moment, and to find the limit whose
	// window ends last.
	var refusing standing
	for i := range t.limits {
		s, err := t.add(r, &t.limits[i], now, 0)
		if err != nil {
			o.unavailable(out, err)
			return
		}
		if s.used+need > s.limit.tokens && s.end > refusing.end {
			refusing = s
		}
	}
	if refusing.limit != nil {
		o.refuse(r, out, t, refusing, now, need)
		return
	}
	o.reserve(r, out, t, now, need)
}

// reserve adds the need to each count. Another instance may have done so since
// the look: a sum beyond the limit is taken back.
func (o *config) reserve(r wasmeter.Request, out *wasmeter.Answer, t *tier, now, need uint64) {
	var nearest standing
	for i := range t.limits {
		s, err := t.add(r, &t.limits[i], now, int64(need))
		beyond := err == nil && s.used > s.limit.tokens
		if err == nil && !beyond {
			if i == 0 || s.left() < nearest.left() {
				nearest = s
			}
			continue
		}
		last := i
		if beyond {
			last++
			s.used -= need
		}
		for j := range last { // one that fails stays set aside until its window ends
			if _, err := t.add(r, &t.limits[j], now, -int64(need)); err != nil {
				wasmeter.Log(wasmeter.Warn, "tokens stay set aside until their window ends: "+err.Error())
			}
		}
		if beyond {
			o.refuse(r, out, t, s, now, need)
		} else {
			o.unavailable(out, err)
		}
		return
	}
	o.writeHeaders(out, nearest, now)
	number = strconv.AppendUint(number[:0], need, 10)
	out.Carry(view(number))
}

// finish puts what was used in the place of what was set aside.
func (o *config) finish(r wasmeter.Request) error {
	t := o.tierOf(r)
	if len(t.limits) == 0 {
		return nil
	}
	reserved, err := strconv.ParseUint(r.Carry(), 10, 63)
	switch {
	case err == nil:
	case r.Flags().Any(wasmeter.Replay):
		reserved = o.reservation(r) // a request that is finished again has lost what it carried
	default:
		reserved = 0 // its request hook failed, and let it pass
	}
	change := int64(o.used(r)) - int64(reserved)
	if change == 0 {
		return nil
	}
	arrival := r.ArrivalUnixNS()
	for i := range t.limits {
		l := &t.limits[i]
		start, end := l.window.span(arrival / nsPerSecond)
		now := (arrival + r.FinishedNS()) / nsPerSecond
		if now >= end {
			continue // its window is over, and the count with it
		}
		if _, err := wasmeter.KVAdd(t.key(r, l, start), change, uint32(end-now)); err != nil {
			return err
		}
	}
	return nil
}

// tierOf gives the class of a request.
func (o *config) tierOf(r wasmeter.Request) *tier {
	for i := range o.tiers {
		if o.tiers[i].Covers(r) {
			return &o.tiers[i]
		}
	}
	return &o.otherwise
}

// reservation is the most that a request may use. It fits into 64 bits: n and
// the prompts have 16, max_tokens 32.
func (o *config) reservation(r wasmeter.Request) uint64 {
	var need uint64
	if o.count != completion {
		need = uint64(r.PromptTokens())
	}
	if o.count != prompt {
		need += choices(r) * o.completionLimit(r)
	}
	return need
}

// choices is how many answers the request asks for.
func choices(r wasmeter.Request) uint64 { return max(uint64(r.N())*uint64(r.Prompts()), 1) }

// completionLimit is the most tokens that a choice is taken to have.
func (o *config) completionLimit(r wasmeter.Request) uint64 {
	if n := r.MaxTokens(); n > 0 {
		return uint64(n)
	}
	return o.assumed
}

// used is what a request counts for at its end.
func (o *config) used(r wasmeter.Request) uint64 {
	switch outcome.GroupOf(r.Outcome()) {
	case outcome.Denied:
		return 0
	case outcome.Failed:
		if !o.countFailed {
			return 0
		}
	}
	var n uint64
	if o.count != completion && r.ScheduledNS() != 0 { // a prompt that was never read cost nothing
		n = uint64(r.PromptTokens())
	}
	if o.count != prompt {
		n += uint64(r.CompletionTokens())
	}
	return n
}
