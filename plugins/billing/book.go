package main

import "strings"

// book is what the configuration says requests cost.
type book struct {
	version string // the operator's name of it, for records
	scale   uint8  // decimal places of a cost

	entries   []entry // of models, in the order of the configuration
	otherwise entry   // of all other models, if it has prices
	unknown   unknown
	// exact and prefixes have the entries by their model, without the * of a
	// prefix.
	exact, prefixes map[string]*entry
	longest         int // of the prefixes

	classes []class
	windows []window
	policy  policy
}

// unknown is what becomes of a request for a model that has no entry.
type unknown uint8

const (
	refuseUnknown unknown = iota // it is not served: nothing is billed at a price that nobody wrote
	freeUnknown
)

// microPlaces are the decimal places of a micro-unit, in which prices are.
const microPlaces = 6

func newBook() book {
	return book{otherwise: newEntry("default"), exact: make(map[string]*entry), prefixes: make(map[string]*entry), policy: newPolicy()}
}

// entry is what a model costs.
type entry struct {
	model   string // as it is written: a name, prefix*, or default
	prices  prices
	fees    [numItems - numTokenItems]uint64 // of the items that are no tokens
	minimum uint64                           // micro-units of the currency for a request that pays
	tiers   []tier                           // by their above
}

func newEntry(model string) entry { return entry{model: model, prices: noPrices} }

// prices are those of tokens. An item without one is priced as what it is a part
// of, which is not the same as a price of 0.
type prices [numTokenItems]uint64

// none is not a price.
const none = 1<<64 - 1

var noPrices = prices{none, none, none, none, none, none, none}

func (p *prices) has(i item) bool { return p[i] != none }

// hasDefault reports whether every model has a price.
func (b *book) hasDefault() bool { return b.otherwise.prices.has(input) }

// refuses reports whether a model may be without a price, and is not served
// then.
func (b *book) refuses() bool { return !b.hasDefault() && b.unknown == refuseUnknown }

// any gives one of the entries, nil if there is none.
func (b *book) any() *entry {
	switch {
	case len(b.entries) > 0:
		return &b.entries[0]
	case b.hasDefault():
		return &b.otherwise
	}
	return nil
}

// index makes an entry known by its model; false if another one is.
func (b *book) index(e *entry) bool {
	name, isPrefix := strings.CutSuffix(e.model, "*")
	entries := b.exact
	if isPrefix {
		entries, b.longest = b.prefixes, max(b.longest, len(name))
	}
	if entries[name] != nil {
		return false
	}
	entries[name] = e
	return true
}

// find gives the entry of a model, nil if it has none: that of its name, else of
// its longest prefix, else the default.
func (b *book) find(model string) *entry {
	if e := b.exact[model]; e != nil {
		return e
	}
	for n := min(len(model), b.longest); n > 0; n-- {
		if e := b.prefixes[model[:n]]; e != nil {
			return e
		}
	}
	if b.hasDefault() {
		return &b.otherwise
	}
	return nil
}

// class is what requests of a class of service pay.
type class struct {
	name   string
	pays   uint64 // basis points of the price
	models matches
}

// classOf gives the class of a request, nil if it has none: the first one of
// that name which is for the model.
func (b *book) classOf(name, model string) *class {
	if name == "" {
		return nil
	}
	for i := range b.classes {
		if c := &b.classes[i]; c.name == name && c.models.cover(model) {
			return c
		}
	}
	return nil
}

// windowOf gives the window in which a request arrived, nil if in none: the
// first one that is open and for the model.
func (b *book) windowOf(arrivalUnixNS uint64, model string) *window {
	for i := range b.windows {
		if w := &b.windows[i]; w.open(arrivalUnixNS) && w.models.cover(model) {
			return w
		}
	}
	return nil
}

// matches are names of models, or prefixes and *. None cover all.
type matches []string

func (m matches) cover(model string) bool {
	for _, pattern := range m {
		if prefix, wild := strings.CutSuffix(pattern, "*"); pattern == model || wild && strings.HasPrefix(model, prefix) {
			return true
		}
	}
	return len(m) == 0
}
