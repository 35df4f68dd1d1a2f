package main

import wasmeter "github.com/wasmeter/wasmeter/sdk/go"

// usage is what of a request has a price.
type usage struct {
	model   string
	class   string // the class of service that was asked for
	arrival uint64 // Unix nanoseconds
	context uint64 // tokens of the longest prompt, which choose the tier
	// counts are of each item. The parts of a prompt are taken out of input, as
	// those of the completion out of output: they add up to what usage says.
	counts [numItems]uint64
}

// made is what a request has used at its end. Prompts count if their
// computation has begun, and completion tokens once they are made.
func made(r wasmeter.Request) usage {
	prompt, longest := prompts(r)
	u := usageOf(r)
	u.context = uint64(longest)
	u.split(input, uint64(prompt), []part{
		{cachedInput, r.CachedPromptTokens()}, {cacheWrite, r.CacheWriteTokens()}, {image, r.ImageTokens()}, {audio, r.AudioTokens()},
	})
	u.split(output, uint64(r.CompletionTokens()), []part{{reasoning, r.ReasoningTokens()}})
	u.counts[request] = 1
	u.counts[toolCall] = uint64(r.ToolCalls())
	u.counts[deviceSecond] = r.DeviceNS()
	return u
}

// delivered is the same with the completion tokens that reached the client.
func delivered(r wasmeter.Request) usage {
	u := made(r)
	tokens := min(r.DeliveredTokens(), r.CompletionTokens())
	u.split(output, uint64(tokens), []part{{reasoning, r.ReasoningTokens()}})
	return u
}

// expected is what a request uses if nothing is cached and each choice is as long
// as it may be: what can be known before it runs. Several prompts are taken as
// one. known is false if the request has set no limit.
func expected(r wasmeter.Request) (u usage, known bool) {
	u = usageOf(r)
	u.context = uint64(r.PromptTokens())
	choices := uint64(max(r.N(), 1)) * uint64(max(r.Prompts(), 1))
	u.counts[input] = uint64(r.PromptTokens())
	u.counts[output] = uint64(r.MaxTokens()) * choices
	u.counts[request] = 1
	return u, r.MaxTokens() > 0
}

func usageOf(r wasmeter.Request) usage {
	u := usage{model: r.Model(), class: r.ServiceTier(), arrival: r.ArrivalUnixNS()}
	if r.Flags().Any(wasmeter.Batch) {
		u.class = batchClass
	}
	return u
}

// batchClass is the class of requests of a batch, whatever tier they ask for.
const batchClass = "batch"

// part is a count of tokens that another count contains.
type part struct {
	item   item
	tokens uint32
}

// split divides total among the parts, in their order, and leaves the rest to
// the item that they are parts of. A token has one price: where parts overlap,
// it is that of the first.
func (u *usage) split(whole item, total uint64, parts []part) {
	for _, p := range parts {
		n := min(uint64(p.tokens), total)
		u.counts[p.item] = n
		total -= n
	}
	u.counts[whole] = total
}

// prompts counts the tokens of the prompts whose computation has begun, and
// those of the longest one. A request that came to its own end has begun them
// all, and without a choice table all or none are.
func prompts(r wasmeter.Request) (total, longest uint32) {
	total, longest = r.PromptTokens(), r.PromptTokens()
	begun := r.ScheduledNS() > 0 || r.CompletionTokens() > 0
	if r.Flags().Any(wasmeter.MultiPrompt) {
		var all, computed, most uint32
		previous, counted := ^uint32(0), false
		for c := range r.Choices() {
			if c.PromptIndex != previous {
				previous, counted = c.PromptIndex, false
				all += c.PromptTokens
				most = max(most, c.PromptTokens)
			}
			if !counted && (c.ScheduledNS > 0 || c.CompletionTokens > 0) {
				counted = true
				computed += c.PromptTokens
			}
		}
		if all == total { // the table tells of every prompt
			longest = most
			if !complete(r.Outcome()) {
				return computed, longest
			}
		}
	}
	if !begun && !complete(r.Outcome()) {
		total = 0
	}
	return total, longest
}
