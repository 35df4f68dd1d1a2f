// Package timing writes the five timing fields of host/plugin/ABI.md, "The
// metrics object", for the plugins that publish them: metrics for a request,
// choices for each of its choices.
package timing

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

// Stamps are what the five fields are made of: nanoseconds since arrival, 0 for
// what never happened, and the tokens of the answer.
type Stamps struct {
	Queued, Scheduled, FirstToken, LastToken uint64
	NumTokens                                uint32
}

// Write writes the five fields in their documented order. A field is null
// when a stamp that it needs is missing or the interval would be negative.
func (s Stamps) Write(w *wasmeter.JSON) {
	writeMillis(w, "time_to_first_token_ms", s.Scheduled, s.FirstToken)
	writeMillis(w, "generation_time_ms", s.FirstToken, s.LastToken)
	writeMillis(w, "queue_time_ms", s.Queued, s.Scheduled)

	if generation, known := interval(s.FirstToken, s.LastToken); known && s.NumTokens > 1 {
		const nsPerMS = 1_000_000
		w.Ratio("mean_itl_ms", generation, uint64(s.NumTokens-1)*nsPerMS)
	} else {
		w.Null("mean_itl_ms")
	}
	if inference, known := interval(s.Scheduled, s.LastToken); known && inference > 0 {
		const nsPerSecond = 1_000_000_000
		w.Ratio("tokens_per_second", uint64(s.NumTokens)*nsPerSecond, inference)
	} else {
		w.Null("tokens_per_second")
	}
}

func writeMillis(w *wasmeter.JSON, key string, from, to uint64) {
	if ns, known := interval(from, to); known {
		w.Millis(key, ns)
	} else {
		w.Null(key)
	}
}

// interval is the time between two stamps, if both happened in that order.
func interval(from, to uint64) (ns uint64, known bool) {
	if from == 0 || to < from {
		return 0, false
	}
	return to - from, true
}
