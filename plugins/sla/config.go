package main

import (
	"errors"

	"github.com/wasmeter/wasmeter/plugins/internal/class"
	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// Bounds of a configuration's numbers. A target is at most a day, a credit a
// million of its currency.
const (
	mostMillis = 86_400_000
	mostMicro  = 1_000_000_000_000
	wholePrice = 100 // percent
)

// targets are what a class promises, in milliseconds, 0 for no promise.
type targets [numTimes]uint64

// credit is what a missed promise is worth: micro-units of the currency or a
// percentage of the request's price, never both. The zero value is nothing.
type credit struct {
	micro, percent uint64
	perDimension   bool // as often as dimensions were missed; else once
}

func (c credit) none() bool { return c.micro == 0 && c.percent == 0 }

// service is a class of requests and what it is promised.
type service struct {
	class.Class
	targets targets
	credit  credit
}

// treatment is what becomes of a request that did not come to its own end.
type treatment uint8

const (
	exclude treatment = iota // it is counted apart
	judge                    // by what was measured until then
	miss                     // it counts as missed
)

// config is what the operator decides.
type config struct {
	field     string
	currency  string
	ignore    bool // the targets that requests bring
	metrics   bool
	endings   [outcome.NumGroups]treatment
	services  []service
	otherwise service
}

func defaults() config {
	o := config{field: "sla", otherwise: service{Class: class.Class{Name: class.Default}}}
	o.endings[outcome.Complete] = judge
	o.endings[outcome.Failed] = miss
	return o
}

func (o *config) members() settings.Members {
	ending := func(name string, g outcome.Group) settings.Member {
		return settings.Member{Name: name, Value: settings.Word(&o.endings[g], "exclude", "judge", "missed")}
	}
	return settings.Members{
		{Name: "field", Value: settings.Text(&o.field, "the name of a field, of 1 to 64 printable characters without quotes", settings.IsField)},
		{Name: "currency", Value: settings.Text(&o.currency, "three capital letters, such as EUR", isCurrency)},
		{Name: "ignore_headers", Value: settings.Bool(&o.ignore)},
		{Name: "metrics", Value: settings.Bool(&o.metrics)},
		{Name: "endings", Value: settings.Object(settings.Members{
			ending("aborted", outcome.Aborted), ending("failed", outcome.Failed), ending("denied", outcome.Denied),
		}, nil)},
		{Name: "classes", Value: settings.List(&o.services, class.Most, func(s *service) settings.Value {
			return settings.Object(append(s.Members(), s.promises()...), s.Check)
		})},
		{Name: "default", Value: settings.Object(o.otherwise.promises(), nil)},
	}
}

// promises are the members of a class beside those that say whom it is for.
func (s *service) promises() settings.Members {
	c := &s.credit
	return settings.Members{
		{Name: "targets", Value: settings.Object(settings.Members{
			{Name: "ttft_ms", Value: settings.Uint(&s.targets[ttft], 1, mostMillis)},
			{Name: "tpot_ms", Value: settings.Uint(&s.targets[tpot], 1, mostMillis)},
			{Name: "total_ms", Value: settings.Uint(&s.targets[total], 1, mostMillis)},
		}, nil)},
		{Name: "credit", Value: settings.Object(settings.Members{
			{Name: "micro", Value: settings.Uint(&c.micro, 1, mostMicro)},
			{Name: "percent", Value: settings.Uint(&c.percent, 1, wholePrice)},
			{Name: "per_dimension", Value: settings.Bool(&c.perDimension)},
		}, func() error {
			if (c.micro == 0) == (c.percent == 0) {
				return errors.New("write either micro or percent")
			}
			return nil
		})},
	}
}

// check looks at what the members say together.
func (o *config) check() error {
	if err := class.Distinct(len(o.services), func(i int) string { return o.services[i].Name }); err != nil {
		return err
	}
	for i := range o.numServices() {
		s := o.service(i)
		if s.credit.micro > 0 && o.currency == "" {
			return errors.New("the class " + s.Name + " has a credit in micro-units of a currency; write which one: currency: EUR")
		}
		if !s.credit.none() && s.targets == (targets{}) {
			return errors.New("the class " + s.Name + " has a credit and no targets, so nothing could be missed")
		}
	}
	return nil
}

// read takes the configuration of the plugin.
func (o *config) read(text []byte) error {
	*o = defaults()
	return settings.Read(text, o.members(), o.check)
}

// numServices counts the classes, with the default one as the last.
func (o *config) numServices() int { return len(o.services) + 1 }

func (o *config) service(i int) *service {
	if i == len(o.services) {
		return &o.otherwise
	}
	return &o.services[i]
}

func isCurrency(text string) bool {
	for i := range len(text) {
		if text[i] < 'A' || text[i] > 'Z' {
			return false
		}
	}
	return len(text) == len("EUR")
}
