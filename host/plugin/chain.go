package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Chain is an ordered list of plugins for one kind of request. It doesn't
// own them. The zero value and nil are empty chains.
type Chain struct {
	plugins []*Plugin
	// contested: some plugin may write a field that an earlier one wrote.
	contested bool
	id        string
}

// NewChain orders plugins. Two of them with the same field are refused,
// unless the later one overrides.
func NewChain(plugins ...*Plugin) (*Chain, error) {
	c := &Chain{plugins: plugins}
	var faults []error
	for i, later := range plugins {
		for _, earlier := range plugins[:i] {
			if earlier.name == later.name {
				faults = append(faults, fmt.Errorf("two plugins are named %q", later.name))
			}
			a, b, shared := sharedField(earlier, later)
			if shared && !later.override {
				faults = append(faults, fmt.Errorf("plugins %q and %q may both write a field (%s, %s): narrow the grants, or set override: true on %q", earlier.name, later.name, a, b, later.name))
			}
			c.contested = c.contested || shared
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	c.id = chainID(plugins)
	return c, nil
}

// chainID names what shapes and prices a request: the plugins in their order,
// their modules and their configurations. It is empty for none.
func chainID(plugins []*Plugin) string {
	if len(plugins) == 0 {
		return ""
	}
	const bytes = 16 // enough to tell chains apart
	all := sha256.New()
	for _, p := range plugins {
		config := sha256.Sum256(p.config)
		fmt.Fprintf(all, "%s %s %x\n", p.name, p.hash, config)
	}
	return hex.EncodeToString(all.Sum(nil)[:bytes])
}

// ID is what frames call chain_id.
func (c *Chain) ID() string {
	if c == nil {
		return ""
	}
	return c.id
}

// sharedField finds a field, a member of usage or a header that two plugins
// may both write.
func sharedField(earlier, later *Plugin) (a, b string, shared bool) {
	e, l := &earlier.grants, &later.grants
	for _, lists := range [][2][]string{{e.Fields, l.Fields}, {e.UsageExtend, l.UsageExtend}, {e.Headers, l.Headers}} {
		for _, a := range lists[0] {
			for _, b := range lists[1] {
				if overlap(a, b) {
					return a, b, true
				}
			}
		}
	}
	return "", "", false
}

// Has reports whether any plugin has the hook. A hook that none has costs
// nothing.
func (c *Chain) Has(hook Hook) bool { return c.mask()&hook.bit() != 0 }

// Names lists the plugins that have the hook.
func (c *Chain) Names(hook Hook) []string {
	if c == nil {
		return nil
	}
	var names []string
	for _, p := range c.plugins {
		if p.mask&hook.bit() != 0 {
			names = append(names, p.name)
		}
	}
	return names
}

// WantsEvents reports whether any plugin reads Frame.Events.
func (c *Chain) WantsEvents() bool { return c.mask()&maskEvents != 0 }

// WantsChoices reports whether any plugin reads Frame.Choices.
func (c *Chain) WantsChoices() bool { return c.mask()&maskChoices != 0 }

// WantsDocument reports whether any plugin reads or replaces Frame.Document
// in the hook.
func (c *Chain) WantsDocument(hook Hook) bool {
	if c == nil {
		return false
	}
	for _, p := range c.plugins {
		if p.mask&hook.bit() == 0 {
			continue
		}
		if hook.parts(p.mask)&(maskRequestBody|maskResponseBody) != 0 || p.grants.Rewrite && hook == HookShape {
			return true
		}
	}
	return false
}

// mask joins the masks of all plugins.
func (c *Chain) mask() mask {
	var all mask
	if c != nil {
		for _, p := range c.plugins {
			all |= p.mask
		}
	}
	return all
}

// Verdict is what the plugins say of a request before it is queued.
type Verdict struct {
	// Deny refuses the request; nil lets it pass.
	Deny *Deny
	// Headers are for the response, whatever becomes of the request. They are
	// valid until the next call with the same State.
	Headers []Header
	// Admission is for the queue; of several plugins the last one counts.
	Admission Admission
}

// Request asks each plugin in turn whether the request may pass. The first
// that denies it ends the chain. frame.Document is the request's body. What a
// plugin says of priority and deadline is in the frame of those behind it. The
// error is a *Failure of a plugin whose policy is Closed.
func (c *Chain) Request(ctx context.Context, frame *Frame, s *State) (Verdict, error) {
	s.result.begin()
	if c == nil {
		return Verdict{}, nil
	}
	seen := *frame
	for i, p := range c.plugins {
		if !p.due(HookRequest) {
			continue
		}
		headers := len(s.result.headers)
		failure := c.call(ctx, i, HookRequest, &seen, frame.Document, s)
		if failure != nil && p.policy == Closed {
			s.refuse(i)
			return Verdict{}, failure
		}
		c.overrideHeaders(&s.result, headers)
		s.result.admission.show(&seen)
		if deny := s.result.deny; deny != nil {
			s.refuse(i)
			deny.Plugin = p.name
			return Verdict{Deny: deny, Headers: s.result.headers}, nil
		}
	}
	return Verdict{Headers: s.result.headers, Admission: s.result.admission}, nil
}

// Shaped is what the plugins make of an answer. It is valid until the next
// call with the same State.
type Shaped struct {
	// Members are for the answer's top level: `"metrics":{…}`, ready for
	// Splice. Usage are the same for its usage.
	Members, Usage []byte
	// Headers are for the response, where they can still be sent.
	Headers []Header
	// Document replaces the answer's document; nil leaves it. Rewriter is the
	// last plugin that replaced it.
	Document []byte
	Rewriter string
}

// Shape asks each plugin in turn what to add to the answer that frame
// describes. frame.Document is the answer without what plugins add. The error
// is a *Failure of a plugin whose policy is Closed.
func (c *Chain) Shape(ctx context.Context, frame *Frame, s *State) (Shaped, error) {
	r := &s.result
	r.begin()
	if c == nil {
		return Shaped{}, nil
	}
	shaped := Shaped{}
	document := frame.Document
	for i, p := range c.plugins {
		if !p.due(HookShape) {
			continue
		}
		members, usage, headers := len(r.members), len(r.usage), len(r.headers)
		r.document = nil
		if failure := c.call(ctx, i, HookShape, frame, document, s); failure != nil {
			switch p.policy {
			case Closed:
				return Shaped{}, failure
			case Null:
				r.members = p.appendNulls(r.members)
			}
		}
		if r.document != nil {
			document = r.document
			shaped.Document, shaped.Rewriter = document, p.name
		}
		if c.contested {
			r.members, r.usage = override(r.members, members), override(r.usage, usage)
			c.overrideHeaders(r, headers)
		}
	}
	shaped.Members, shaped.Usage, shaped.Headers = r.members, r.usage, r.headers
	return shaped, nil
}

// Chunk hands one chunk of a stream, the JSON of an event, from plugin to
// plugin and gives what is to be sent in its place: chunk itself if none
// replaces it. The error is a *Failure of a plugin whose policy is Closed.
func (c *Chain) Chunk(ctx context.Context, frame *Frame, s *State, chunk []byte) ([]byte, error) {
	s.result.begin()
	if c == nil {
		return chunk, nil
	}
	for i, p := range c.plugins {
		if !p.due(HookChunk) {
			continue
		}
		s.result.document = nil
		failure := c.call(ctx, i, HookChunk, frame, chunk, s)
		if failure != nil && p.policy == Closed {
			return nil, failure
		}
		if s.result.document != nil {
			chunk = s.result.document
		}
	}
	return chunk, nil
}

// Finished is what the plugins have to say at a request's end. The caller
// commits it in one transaction with the frame: all of it, once. It is valid
// until the next call with the same State.
type Finished struct {
	Records []Record
	// Writes are for the KV, in this order.
	Writes []Write
	// Failed are the plugins that gave nothing: for them the frame stays
	// unpriced, to be finished again later.
	Failed []*Failure
}

// Finish tells the plugins that the request has ended, whatever its end. It
// is called once for each request that got as far as Request. Plugins behind
// one that denied the request, and that one itself, are not told: they never
// accepted it.
func (c *Chain) Finish(ctx context.Context, frame *Frame, s *State) Finished {
	s.result.begin()
	if c == nil {
		return Finished{}
	}
	var failed []*Failure
	for i, p := range c.plugins {
		if s.refused && i >= s.ended {
			break
		}
		if p.mask&maskFinish == 0 {
			continue
		}
		if p.stopped.Load() {
			failed = append(failed, p.leaveOut())
			continue
		}
		if failure := c.call(ctx, i, HookFinish, frame, nil, s); failure != nil {
			failed = append(failed, failure)
		}
	}
	return Finished{Records: s.result.effects.records, Writes: s.result.effects.writes, Failed: failed}
}

// call calls a hook of the plugin at place i, with the frame as that plugin
// sees it.
func (c *Chain) call(ctx context.Context, i int, hook Hook, frame *Frame, document []byte, s *State) *Failure {
	seen := *frame
	seen.Document, seen.Carry, seen.ChainID = document, s.Carry(i), c.id
	failure := c.plugins[i].call(ctx, hook, &seen, &s.result)
	if failure == nil && s.result.carried {
		s.keep(i, s.result.carry)
	}
	return failure
}

// overrideHeaders removes from the headers before from what those behind set
// again.
func (c *Chain) overrideHeaders(r *result, from int) {
	if !c.contested || from == 0 {
		return
	}
	kept := slices.DeleteFunc(r.headers[:from:from], func(h Header) bool {
		return slices.ContainsFunc(r.headers[from:], func(later Header) bool { return later.Name == h.Name })
	})
	r.headers = append(kept, r.headers[from:]...)
}

// override removes from members[:at] what members[at:] writes again.
func override(members []byte, at int) []byte {
	if at == 0 || len(members) == at {
		return members
	}
	written := bytes.Clone(bytes.TrimPrefix(members[at:], []byte(",")))
	kept := members[:at]
	s := jsonScanner{doc: written}
	var list jsonObject
	for {
		name, more := s.next(&list)
		if !more {
			break
		}
		s.value(3)
		kept = cutMember(kept, name)
	}
	if len(kept) > 0 {
		kept = append(kept, ',')
	}
	return append(kept, written...)
}
