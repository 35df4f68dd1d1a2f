// Command metrics is the default plugin: it writes the documented metrics
// object of each answer. README.md has its rules and how it is built.
package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

func main() {}

func init() { wasmeter.Register(wasmeter.Plugin{Shape: shape}) }

// shape writes the metrics member.
func shape(r wasmeter.Request, out *wasmeter.Answer) {
	flags := r.Flags()
	speculation := r.SpecJSON()
	timings := flags.Any(wasmeter.TimingsWanted)
	switch {
	case !timings && speculation == "":
		return // nobody asked
	case flags.Any(wasmeter.MultiPrompt | wasmeter.MultiTurn):
		return // no single generation to speak of
	case flags.Any(wasmeter.MultiChoice):
		out.Fields.Null("metrics")
		return
	}
	var t timing
	if timings && !flags.Any(wasmeter.TimingUnknown) {
		t = timing{r.QueuedNS(), r.ScheduledNS(), r.FirstTokenNS(), r.LastTokenNS(), r.CompletionTokens()}
	}
	metrics := out.Fields.Object("metrics")
	t.write(metrics)
	if speculation != "" {
		metrics.Raw("speculative_decoding", speculation)
	}
	metrics.End()
}
