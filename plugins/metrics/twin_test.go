package main

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// twin is the plugin written from host/plugin/ABI.md, "The metrics object", in
// fractions of any size. It gives what stands in the answer.
func twin(f *plugin.Frame) string {
	timings, speculation := f.Flags&plugin.FlagTimingsWanted != 0, f.SpecJSON != ""
	switch {
	case !timings && !speculation, f.Flags&(plugin.FlagMultiPrompt|plugin.FlagMultiTurn) != 0:
		return ""
	case f.Flags&plugin.FlagMultiChoice != 0:
		return `"metrics":null`
	}
	fields := [5]*big.Rat{}
	if timings && f.Flags&plugin.FlagTimingUnknown == 0 {
		fields = twinFields(f)
	}
	var b strings.Builder
	b.WriteString(`"metrics":{`)
	for i, name := range [...]string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"} {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":` + twinNumber(fields[i]))
	}
	if speculation {
		b.WriteString(`,"speculative_decoding":` + f.SpecJSON)
	}
	b.WriteByte('}')
	return b.String()
}

// twinFields are the five fields in their order, nil for null.
func twinFields(f *plugin.Frame) (fields [5]*big.Rat) {
	fields[0] = twinInterval(f.ScheduledNS, f.FirstTokenNS)
	generation := twinInterval(f.FirstTokenNS, f.LastTokenNS)
	fields[1] = generation
	fields[2] = twinInterval(f.QueuedNS, f.ScheduledNS)
	tokens := new(big.Rat).SetUint64(uint64(f.CompletionTokens))
	if gaps := new(big.Rat).Sub(tokens, big.NewRat(1, 1)); generation != nil && gaps.Sign() > 0 {
		fields[3] = new(big.Rat).Quo(generation, gaps)
	}
	if inference := twinInterval(f.ScheduledNS, f.LastTokenNS); inference != nil && inference.Sign() > 0 {
		seconds := new(big.Rat).Quo(inference, big.NewRat(1000, 1))
		fields[4] = new(big.Rat).Quo(tokens, seconds)
	}
	return fields
}

// twinInterval is in milliseconds, nil where a stamp is missing or it would be
// negative.
func twinInterval(from, to uint64) *big.Rat {
	a, b := new(big.Int).SetUint64(from), new(big.Int).SetUint64(to)
	if a.Sign() == 0 || b.Sign() == 0 || b.Cmp(a) < 0 {
		return nil
	}
	return new(big.Rat).SetFrac(b.Sub(b, a), big.NewInt(1_000_000))
}

// twinNumber has 6 places, the last rounded half up, and zeros cut down to one
// place.
func twinNumber(v *big.Rat) string {
	if v == nil {
		return "null"
	}
	text := v.FloatString(6) // rounds halves away from 0, and nothing is negative
	for strings.HasSuffix(text, "0") && !strings.HasSuffix(text, ".0") {
		text = text[:len(text)-1]
	}
	return text
}

// randomFrame leans to the edges: stamps that are missing, equal, reversed or
// as large as they get, few tokens or most, and each flag by itself or together.
func randomFrame(r *rand.Rand) *plugin.Frame {
	number := func(highest uint64) uint64 {
		switch r.UintN(6) {
		case 0:
			return uint64(r.UintN(4))
		case 1:
			return highest - uint64(r.UintN(4))
		case 2: // about a power of two
			return min(uint64(1)<<r.UintN(64)+uint64(r.UintN(3))-1, highest)
		case 3: // whole milliseconds
			return min(uint64(r.UintN(1_000_000))*1_000_000, highest)
		}
		return r.Uint64() >> r.UintN(64) & highest
	}
	f := &plugin.Frame{
		Endpoint: plugin.Endpoint(r.UintN(4)), Outcome: plugin.Outcome(r.UintN(14)), N: uint16(r.UintN(3)), Prompts: uint16(r.UintN(3)),
		ArrivalUnixNS: r.Uint64(), PromptTokens: r.Uint32(), MaxTokens: r.Uint32(), FinishedNS: r.Uint64(), DeviceNS: r.Uint64(),
		CompletionTokens: uint32(number(math.MaxUint32)),
		RequestID:        strings.Repeat("i", r.IntN(40)), Model: "m\xff", Tenant: strings.Repeat("ü", r.IntN(9)),
	}
	stamps := [...]*uint64{&f.QueuedNS, &f.ScheduledNS, &f.FirstTokenNS, &f.LastTokenNS}
	var at uint64
	for _, stamp := range stamps {
		switch r.UintN(8) {
		case 0:
			*stamp = number(math.MaxUint64)
			continue
		case 1: // as the one before, or missing
		default:
			at += number(1 << 50)
		}
		*stamp = at
	}
	if r.UintN(8) == 0 {
		*stamps[r.UintN(4)] = 0
	}
	if r.UintN(2) == 0 {
		f.Flags = plugin.FlagTimingsWanted | plugin.Flags(r.Uint32()&uint32(plugin.FlagStream|plugin.FlagPartial|plugin.FlagReplay|plugin.FlagUsageChunkWanted|plugin.FlagBatch))
	} else {
		f.Flags = plugin.Flags(r.Uint32()) &^ plugin.FlagSynthetic // any, also those that have no name
	}
	if r.UintN(4) == 0 {
		f.SpecJSON = [...]string{
			`{}`, `{"mean_acceptance_length":2.75,"num_spec_steps":4}`, `{"ü":"\u00e9\n","a":[1,-2.5e3,null,true,{"b":[]}]}`,
			`{"x":"` + strings.Repeat("€", r.IntN(3000)) + `"}`,
		}[r.UintN(4)]
	}
	return f
}

// testTwin: a module, the source in Go and the twin say the same, byte for byte,
// of 100,000 requests.
func testTwin(t *testing.T, chain *plugin.Chain) {
	const seed = 20261129
	random := rand.New(rand.NewPCG(seed, 0))
	state := new(plugin.State)
	kinds := make(map[string]int)
	for i := range 100_000 {
		frame := randomFrame(random)
		state.Reset()
		shaped, err := chain.Shape(context.Background(), frame, state)
		want := twin(frame)
		if err != nil || string(shaped.Members) != want {
			t.Fatalf("frame %d of seed %d: got  %s, %v\nwant %s\nof %+v", i, seed, shaped.Members, err, want, frame)
		}
		if source := native(frame); source != want {
			t.Fatalf("frame %d of seed %d: the source gives %s\nwant %s\nof %+v", i, seed, source, want, frame)
		}
		kinds[kind(want)]++
	}
	for _, k := range []string{"none", "null", "object", "object with nulls", "nulls", "speculation"} {
		if kinds[k] < 1000 {
			t.Errorf("%d of the answers are of the kind %q; too few to say anything: %v", kinds[k], k, kinds)
		}
	}
}

// kind tells the rows of the ABI's table apart.
func kind(members string) string {
	switch nulls := strings.Count(members, ":null"); {
	case members == "":
		return "none"
	case members == `"metrics":null`:
		return "null"
	case strings.Contains(members, "speculative"):
		return "speculation"
	case nulls == 5:
		return "nulls"
	case nulls > 0:
		return "object with nulls"
	}
	return "object"
}
