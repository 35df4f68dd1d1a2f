// Command choices is a plugin that writes the timing of each choice of an
// answer, where the metrics object has one place for all. README.md has its
// rules.
package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	"github.com/wasmeter/wasmeter/plugins/internal/timing"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// options is the configuration of this instance.
var options = defaults()

// scratch measures what has been written. It is kept, so that a call allocates
// nothing once it is large enough.
var scratch []byte

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{
		Init:    func(config []byte) error { return options.read(config) },
		Shape:   func(r wasmeter.Request, out *wasmeter.Answer) { options.shape(r, out) },
		Choices: true,
	})
}

// A result has at most 16 KiB. An entry of the longest numbers has less than
// largestEntry bytes, what stands around the list and at its end less than
// around.
const (
	resultBytes  = 16 << 10
	largestEntry = 360
	around       = 160
	// certain is how many entries always fit.
	certain = (resultBytes - around) / largestEntry
)

// shape writes the list of choices.
func (o *config) shape(r wasmeter.Request, out *wasmeter.Answer) {
	flags := r.Flags()
	several := flags.Any(wasmeter.MultiChoice | wasmeter.MultiPrompt)
	if flags.Any(wasmeter.MultiTurn) || !several && !o.always {
		return // no single generation to speak of, or nothing that metrics has not
	}
	list := out.Fields.List(o.field)
	var written uint64
	for c := range r.Choices() {
		if written == o.most || written >= certain && full(out) {
			all := uint64(r.N()) * uint64(r.Prompts()) // the table has no more
			list.Object("").Uint("omitted", all-written).End()
			break
		}
		writeChoice(list.Object(""), c, flags)
		written++
	}
	list.End()
}

// full reports whether one more entry might make the result too large.
func full(out *wasmeter.Answer) bool {
	scratch = out.Fields.AppendTo(scratch[:0])
	return len(scratch)+largestEntry+around > resultBytes
}

// writeChoice writes one entry and closes it.
func writeChoice(w *wasmeter.JSON, c wasmeter.Choice, flags wasmeter.Flags) {
	w.Uint("index", uint64(c.Index))
	if flags.Any(wasmeter.MultiPrompt) {
		w.Uint("prompt_index", uint64(c.PromptIndex))
	}
	if c.FinishReason == wasmeter.Running {
		w.Null("finish_reason")
	} else {
		w.Str("finish_reason", outcome.Name(c.FinishReason))
	}
	w.Uint("completion_tokens", uint64(c.CompletionTokens))
	var stamps timing.Stamps
	if !flags.Any(wasmeter.TimingUnknown) {
		stamps = timing.Stamps{
			Queued: c.QueuedNS, Scheduled: c.ScheduledNS, FirstToken: c.FirstTokenNS, LastToken: c.LastTokenNS,
			NumTokens: c.CompletionTokens,
		}
	}
	stamps.Write(w)
	w.End()
}
