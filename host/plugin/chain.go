package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Chain is an ordered list of plugins for one kind of request. It doesn't
// own them. The zero value and nil are empty chains.
type Chain struct {
	plugins []*Plugin
	// contested: some plugin may write a field that an earlier one wrote.
	contested bool
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
	return c, nil
}

func sharedField(earlier, later *Plugin) (a, b string, shared bool) {
	for _, a := range earlier.rules.fields {
		for _, b := range later.rules.fields {
			if fieldsOverlap(a, b) {
				return a, b, true
			}
		}
	}
	return "", "", false
}

// Shapes reports whether any plugin has the shape hook, that is, whether a
// Frame is worth building.
func (c *Chain) Shapes() bool { return c.mask()&maskShape != 0 }

// WantsEvents reports whether any plugin reads Frame.Events.
func (c *Chain) WantsEvents() bool { return c.mask()&maskEvents != 0 }

// WantsChoices reports whether any plugin reads Frame.Choices.
func (c *Chain) WantsChoices() bool { return c.mask()&maskChoices != 0 }

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

// Shape asks each plugin in turn what to add to the answer that frame
// describes. It returns the members, ready for Splice: `"metrics":{…}`, or
// nothing. They are written over dst, which is grown if needed. The error is
// a *Failure of a plugin whose policy is Closed.
func (c *Chain) Shape(ctx context.Context, frame *Frame, dst []byte) ([]byte, error) {
	members := dst[:0]
	if c == nil {
		return members, nil
	}
	for _, p := range c.plugins {
		if p.mask&maskShape == 0 {
			continue
		}
		before := len(members)
		var failure *Failure
		members, failure = p.shape(ctx, frame, members)
		if failure != nil {
			switch p.policy {
			case Closed:
				return dst[:0], failure
			case Null:
				members = p.appendNulls(members)
			}
		}
		if c.contested && before > 0 && len(members) > before {
			members = override(members, before)
		}
	}
	return members, nil
}

// override removes from members[:at] what members[at:] writes again.
func override(members []byte, at int) []byte {
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
