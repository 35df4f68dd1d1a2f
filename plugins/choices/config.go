package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// mostChoices is what an API takes as n, for each of many prompts.
const mostChoices = 1 << 16

// config is what the operator decides.
type config struct {
	field  string // of the answer
	always bool   // also for one choice of one prompt
	most   uint64 // entries; the others are counted
}

func defaults() config { return config{field: "x_choice_metrics", most: mostChoices} }

func (o *config) members() settings.Members {
	return settings.Members{
		{Name: "field", Value: settings.Text(&o.field, "the name of a field, of 1 to 64 printable characters without quotes", settings.IsField)},
		{Name: "always", Value: settings.Bool(&o.always)},
		{Name: "most", Value: settings.Uint(&o.most, 1, mostChoices)},
	}
}

// read takes the configuration of the plugin.
func (o *config) read(text []byte) error {
	*o = defaults()
	return settings.Read(text, o.members(), nil)
}
