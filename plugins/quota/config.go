package main

import (
	"errors"

	"github.com/wasmeter/wasmeter/plugins/internal/class"
	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// Bounds of a configuration's numbers.
const (
	mostTokens    = 1_000_000_000_000_000 // far from the end of an i64, so that no sum comes near it
	mostLimits    = 8                     // of one class
	mostAssumed   = 1_000_000
	assumedTokens = 1_024
)

// measure says which tokens count.
type measure uint8

const (
	total measure = iota
	prompt
	completion
)

// owner says who has a count of his own.
type owner uint8

const (
	perTenant owner = iota
	perModel        // each tenant, for each model
	perKey          // each key of a tenant
	perClass        // all of the class together
)

var ownerNames = []string{perTenant: "tenant", perModel: "model", perKey: "key", perClass: "class"}

// limit is how many tokens may be used in a window.
type limit struct {
	window window
	per    owner
	tokens uint64
}

// tier is a class of requests and its limits; without any it is unlimited.
type tier struct {
	class.Class
	limits []limit
}

// config is what the operator decides.
type config struct {
	count measure
	// assumed is what a request is taken to complete that names no max_tokens.
	assumed uint64
	// countFailed counts the tokens of requests that the server failed.
	countFailed bool
	// strict refuses requests while they can't be counted.
	strict bool
	// headers tells clients of the limit that is nearest.
	headers   bool
	tiers     []tier
	otherwise tier // of requests that no other covers
}

func defaults() config {
	return config{assumed: assumedTokens, otherwise: tier{Class: class.Class{Name: class.Default}}}
}

func (o *config) members() settings.Members {
	return settings.Members{
		{Name: "count", Value: settings.Word(&o.count, "total", "prompt", "completion")},
		{Name: "assumed_completion_tokens", Value: settings.Uint(&o.assumed, 1, mostAssumed)},
		{Name: "count_failed", Value: settings.Bool(&o.countFailed)},
		{Name: "strict", Value: settings.Bool(&o.strict)},
		{Name: "headers", Value: settings.Bool(&o.headers)},
		{Name: "classes", Value: settings.List(&o.tiers, class.Most, func(t *tier) settings.Value {
			members := append(t.Members(), settings.Member{Name: "limits", Value: t.list(), Required: true})
			return settings.Object(members, func() error { return errors.Join(t.Check(), t.distinct()) })
		})},
		{Name: "default", Value: settings.Object(settings.Members{
			{Name: "limits", Value: o.otherwise.list(), Required: true},
		}, o.otherwise.distinct)},
	}
}

func (t *tier) list() settings.Value {
	return settings.List(&t.limits, mostLimits, func(l *limit) settings.Value {
		return settings.Object(settings.Members{
			{Name: "window", Value: settings.Word(&l.window, windowNames...), Required: true},
			{Name: "tokens", Value: settings.Uint(&l.tokens, 1, mostTokens), Required: true},
			{Name: "per", Value: settings.Word(&l.per, ownerNames...)},
		}, nil)
	})
}

// distinct refuses two limits that would share a count.
func (t *tier) distinct() error {
	for i, l := range t.limits {
		for _, other := range t.limits[:i] {
			if l.window == other.window && l.per == other.per {
				return errors.New("two limits per " + ownerNames[l.per] + " and " + windowNames[l.window] + "; keep the lower one")
			}
		}
	}
	return nil
}

// read takes the configuration of the plugin.
func (o *config) read(text []byte) error {
	*o = defaults()
	return settings.Read(text, o.members(), func() error {
		return class.Distinct(len(o.tiers), func(i int) string { return o.tiers[i].Name })
	})
}
