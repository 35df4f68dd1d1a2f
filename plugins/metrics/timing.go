package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

// timing is what the five fields are made of: stamps in nanoseconds since
// arrival, 0 for what never happened, and the tokens of the answer.
type timing struct {
	queued, scheduled, firstToken, lastToken uint64
	numTokens                                uint32
}

// write writes the five fields in their documented order. A field is null
// when a stamp that it needs is missing or the interval would be negative.
func (t timing) write(w *wasmeter.JSON) {
	writeMillis(w, "time_to_first_token_ms", t.scheduled, t.firstToken)
	writeMillis(w, "generation_time_ms", t.firstToken, t.lastToken)
	writeMillis(w, "queue_time_ms", t.queued, t.scheduled)

	if generation, known := interval(t.firstToken, t.lastToken); known && t.numTokens > 1 {
		const nsPerMS = 1_000_000
		w.Ratio("mean_itl_ms", generation, uint64(t.numTokens-1)*nsPerMS)
	} else {
		w.Null("mean_itl_ms")
	}
	if inference, known := interval(t.scheduled, t.lastToken); known && inference > 0 {
		const nsPerSecond = 1_000_000_000
		w.Ratio("tokens_per_second", uint64(t.numTokens)*nsPerSecond, inference)
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
