// Command metrics is the default plugin written in Go: it gives the same bytes as
// metrics.zig, which is the one in the server's program. README.md has its rules
// and says why there are two.
package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/timing"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

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
	var stamps timing.Stamps
	if timings && !flags.Any(wasmeter.TimingUnknown) {
		stamps = timing.Stamps{
			Queued: r.QueuedNS(), Scheduled: r.ScheduledNS(), FirstToken: r.FirstTokenNS(), LastToken: r.LastTokenNS(),
			NumTokens: r.CompletionTokens(),
		}
	}
	metrics := out.Fields.Object("metrics")
	stamps.Write(metrics)
	if speculation != "" {
		metrics.Raw("speculative_decoding", speculation)
	}
	metrics.End()
}
