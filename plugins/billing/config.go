package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// config is all that the plugin is told. schema.json says the same.
type config struct {
	currency string
	scale    uint64 // decimal places of a cost
	book     book
	answer   answer
	// corrects makes records of what requests should have cost, if it names a
	// plugin.
	corrects correction
}

// answer says where a cost is told to clients; an empty name tells it nowhere.
type answer struct {
	field string // of the answer's top level
	usage string // of its usage
	quote string // the response header of what the request will cost at most
	lines bool   // the field has the bill's lines too
}

// correction is what records are corrected from.
type correction struct {
	plugin, reason string
	was            book // the book that they were made by
}

// mostScale is fine enough for a price of 1 and a single token.
const mostScale = 12

// readConfig reads the plugin's configuration, a JSON object.
func readConfig(text []byte) (*config, error) {
	c := newConfig()
	if err := settings.Read(text, c.members(), c.check); err != nil {
		return nil, err
	}
	return c, nil
}

func newConfig() *config {
	return &config{
		scale: microPlaces, book: newBook(), corrects: correction{was: newBook()},
		answer: answer{field: "billing", usage: "cost", quote: "x-cost-quote"},
	}
}

func (c *config) members() settings.Members {
	return append(c.book.members(),
		settings.Member{Name: "currency", Value: settings.Text(&c.currency, "the code of a currency, 3 to 8 of A-Z and 0-9, such as USD", isCurrency), Required: true},
		settings.Member{Name: "scale", Value: settings.Uint(&c.scale, 0, mostScale).Saying("; 6 decimal places are micro-units")},
		settings.Member{Name: "answer", Value: settings.Object(c.answer.members(), nil)},
		settings.Member{Name: "corrects", Value: settings.Object(c.corrects.members(), nil)},
	)
}

func (a *answer) members() settings.Members {
	field := func(name string) bool { return name == "" || settings.IsField(name) }
	return settings.Members{
		{Name: "field", Value: settings.Text(&a.field, `the name of a field, or "" for none`, field)},
		{Name: "usage", Value: settings.Text(&a.usage, `the name of a member of usage, or "" for none`, field)},
		{Name: "quote", Value: settings.Text(&a.quote, `a response header, x- and up to 62 of a-z, 0-9 and -, or "" for none`, isHeader)},
		{Name: "lines", Value: settings.Bool(&a.lines)},
	}
}

func (c *correction) members() settings.Members {
	return settings.Members{
		{Name: "plugin", Value: text(&c.plugin), Required: true},
		{Name: "reason", Value: text(&c.reason), Required: true},
		{Name: "book", Value: settings.Object(c.was.members(), c.was.check), Required: true},
	}
}

// check finds what is wrong with the configuration as a whole.
func (c *config) check() error {
	c.book.scale, c.corrects.was.scale = uint8(c.scale), uint8(c.scale)
	return errors.Join(c.book.check(), c.book.checkMinimums(), c.corrects.was.checkMinimums())
}

// Limits of the lists of a book.
const (
	mostModels  = 256 // reading takes some 3 million units of fuel for each, of the thousand of an init
	mostTiers   = 16
	mostRules   = 64 // classes, and windows
	mostMatches = 256
)

// members are those of a book. A table of members costs more than what is read
// by it, so that all models have one, which reads into next.
func (b *book) members() settings.Members {
	next := new(entry)
	members := append(settings.Members{{Name: "model", Value: model(&next.model), Required: true}}, next.members()...)
	models := settings.List(&b.entries, mostModels, func(e *entry) settings.Value {
		*next = newEntry("")
		return settings.Object(members, func() error {
			*e = *next
			return e.check()
		})
	})
	return settings.Members{
		{Name: "version", Value: text(&b.version)},
		{Name: "models", Value: models},
		{Name: "default", Value: settings.Object(b.otherwise.members(), b.otherwise.check)},
		{Name: "unknown", Value: settings.Word(&b.unknown, "refuse", "free")},
		{Name: "classes", Value: settings.List(&b.classes, mostRules, func(c *class) settings.Value {
			return settings.Object(c.members(), nil)
		})},
		{Name: "windows", Value: settings.List(&b.windows, mostRules, func(w *window) settings.Value {
			return settings.Object(w.members(), w.check)
		})},
		{Name: "policy", Value: settings.Object(b.policy.members(), nil)},
	}
}

// check finds what is wrong with the book as a whole, and makes it fit for
// finding entries.
func (b *book) check() error {
	var faults []error
	if len(b.entries) == 0 && !b.hasDefault() && b.unknown == refuseUnknown {
		faults = append(faults, errors.New("no prices; write what models cost, in models or default"))
	}
	for i := range b.entries {
		if !b.index(&b.entries[i]) {
			faults = append(faults, errors.New("models["+strconv.Itoa(i)+"].model: "+strconv.Quote(b.entries[i].model)+" stands there twice"))
		}
	}
	return errors.Join(faults...)
}

// checkMinimums refuses a minimum that would be rounded.
func (b *book) checkMinimums() error {
	if b.scale >= microPlaces {
		return nil
	}
	step := power10(microPlaces - b.scale)
	for _, e := range append(slices.Clip(b.entries), b.otherwise) {
		if e.minimum%step != 0 {
			return errors.New("the minimum of " + strconv.Quote(e.model) + ", " + decimal(e.minimum) + ", is rounded to " + decimal(uint64(b.scale)) +
				" decimal places; use a multiple of " + decimal(step) + ", or a larger scale")
		}
	}
	return nil
}

func (e *entry) members() settings.Members {
	next := new(tier)
	above := settings.Uint(&next.above, 0, 1<<32-1).Saying(" of prompt tokens")
	members := append(settings.Members{{Name: "above", Value: above, Required: true}}, next.prices.members()...)
	tiers := settings.List(&e.tiers, mostTiers, func(t *tier) settings.Value {
		*next = tier{prices: noPrices}
		return settings.Object(members, func() error {
			*t = *next
			return nil
		})
	})
	all := e.prices.members()
	for i := numTokenItems; i < numItems; i++ {
		all = append(all, settings.Member{Name: itemNames[i], Value: money(&e.fees[i-numTokenItems], i.most(), i.each())})
	}
	return append(all,
		settings.Member{Name: "minimum", Value: money(&e.minimum, mostPrice, "for a request that pays")},
		settings.Member{Name: "tiers", Value: tiers},
	)
}

// check refuses tiers that leave open what a token costs.
func (e *entry) check() error {
	for i := range e.tiers {
		t, at := &e.tiers[i], "tiers["+strconv.Itoa(i)+"]."
		if i > 0 && t.above <= e.tiers[i-1].above {
			return errors.New(at + "above: " + decimal(t.above) + " is not more than the tier before it has; put the tiers in order")
		}
		for i := range numTokenItems {
			if t.prices.has(i) != e.prices.has(i) {
				return errors.New(at + itemNames[i] + ": a model and its tiers have the same prices of tokens; write it in all of them or in none")
			}
		}
	}
	return nil
}

// members are the prices of tokens, of an entry or of a tier.
func (p *prices) members() settings.Members {
	var all settings.Members
	for i := range numTokenItems {
		all = append(all, settings.Member{Name: itemNames[i], Value: money(&p[i], i.most(), i.each()), Required: i == input || i == output})
	}
	return all
}

func (c *class) members() settings.Members {
	return settings.Members{
		{Name: "class", Value: settings.Text(&c.name, "1 to 32 of a-z, A-Z, 0-9, _ and -", isTier), Required: true},
		{Name: "pays", Value: pays(&c.pays), Required: true},
		{Name: "models", Value: models(&c.models)},
	}
}

func (w *window) members() settings.Members {
	return settings.Members{
		{Name: "name", Value: text(&w.name), Required: true},
		{Name: "from", Value: clock(&w.from), Required: true},
		{Name: "to", Value: clock(&w.to), Required: true},
		{Name: "days", Value: settings.List(&w.days, len(dayNames), func(d *day) settings.Value { return settings.Word(d, dayNames[:]...) })},
		{Name: "pays", Value: pays(&w.pays), Required: true},
		{Name: "models", Value: models(&w.models)},
	}
}

func (w *window) check() error {
	if w.from == w.to {
		return errors.New("from and to are the same time; the whole day is from 00:00 to 24:00")
	}
	return nil
}
