package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wasmeter/wasmeter/engine"
)

// sequences are the `vllm:` series of the engine. Its methods are called by the
// engine's loop, which alone writes them; scrapes read them meanwhile.
type sequences struct {
	context       int
	prefixCaching bool

	running, waiting, waitingCapacity, kvCacheUsage, cachedBlocks prometheus.Gauge

	stepTime prometheus.Histogram

	prefixQueries, prefixHits, preemptions                prometheus.Counter
	promptTokens, promptComputed, promptHit, promptCached prometheus.Counter
	cachedOnDevice, generationTokens                      prometheus.Counter
	// Without speculation these are nil, and acceptedAt, by a draft's place in its
	// step, is empty.
	draftSteps, drafted, accepted prometheus.Counter
	acceptedAt                    []prometheus.Counter
	// finished is indexed by reason.
	finished [engine.Failed + 1]prometheus.Counter

	iterationTokens, timeToFirstToken, interTokenLatency prometheus.Histogram

	// Observed when a sequence ends.
	prompt, generation, maxTokens, prefillComputed, numPreemptions prometheus.Histogram
	timePerOutputToken                                             prometheus.Histogram
	e2e, queueTime, inferenceTime, prefillTime, decodeTime         prometheus.Histogram

	// Observed when the last continuation of a prompt ends.
	paramsN, maxGeneration prometheus.Histogram
	// families are the prompts with several continuations, some of which have
	// ended.
	families map[familyKey]family
}

// familyKey names a prompt of a request.
type familyKey struct {
	request *engine.Request
	prompt  int
}

// family is what the ended continuations of a prompt leave behind.
type family struct {
	ended int
	// longest is the largest number of tokens that one of them had.
	longest int
}

// event counts what happens while a sequence lives.
func (s *sequences) event(r *engine.Request, e engine.Event, l *engine.Life) {
	switch e.Kind {
	case engine.Scheduled:
		if s.prefixCaching {
			s.prefixQueries.Add(float64(l.PromptTokens))
			s.prefixHits.Add(float64(l.CachedTokens))
			s.cachedOnDevice.Add(float64(l.CachedTokens))
		}
	case engine.FirstToken:
		observe(s.timeToFirstToken, r.Arrival, e.Time)
		s.promptTokens.Add(float64(l.PromptTokens))
		s.promptComputed.Add(float64(computed(l)))
		s.promptHit.Add(float64(l.CachedTokens))
		s.promptCached.Add(float64(l.CachedTokens))
		s.generationTokens.Add(float64(e.Tokens))
	case engine.Tokens:
		s.interTokenLatency.Observe(e.Gap.Seconds())
		s.generationTokens.Add(float64(e.Tokens))
	case engine.Drafted:
		s.draftSteps.Inc()
		s.drafted.Add(float64(e.Drafts))
		s.accepted.Add(float64(e.Tokens))
		for _, c := range s.acceptedAt[:e.Tokens] {
			c.Inc()
		}
	case engine.Preempted:
		s.preemptions.Inc()
	case engine.Finished, engine.Aborted:
		s.leave(familyKey{r, e.Choice / r.N}, l.CompletionTokens)
	}
}

// leave takes a continuation with so many tokens out of its family, and counts
// the family when it was the last.
func (s *sequences) leave(key familyKey, tokens int) {
	f := s.families[key]
	f.ended++
	f.longest = max(f.longest, tokens)
	if f.ended < key.request.N {
		s.families[key] = f
		return
	}
	delete(s.families, key)
	s.paramsN.Observe(float64(key.request.N))
	s.maxGeneration.Observe(float64(f.longest))
}

// finish counts a sequence's whole life.
func (s *sequences) finish(r *engine.Request, reason engine.FinishReason, l *engine.Life) {
	s.finished[reason].Inc()
	s.prompt.Observe(float64(l.PromptTokens))
	s.generation.Observe(float64(l.CompletionTokens))
	s.maxTokens.Observe(float64(s.limit(r, l)))
	s.numPreemptions.Observe(float64(l.Preemptions))

	observe(s.e2e, r.Arrival, l.Finished)
	observe(s.queueTime, l.Queued, l.Scheduled)
	observe(s.prefillTime, l.Scheduled, l.First)
	observe(s.decodeTime, l.First, l.Last)
	observe(s.inferenceTime, l.Scheduled, l.Last)
	if l.First > 0 {
		s.prefillComputed.Observe(float64(computed(l)))
		// One token has no gap: 0, as in vLLM.
		s.timePerOutputToken.Observe((l.Last - l.First).Seconds() / float64(max(l.CompletionTokens-1, 1)))
	}
}

// limit is the number of tokens that the sequence could have at most.
func (s *sequences) limit(r *engine.Request, l *engine.Life) int {
	room := s.context - l.PromptTokens
	if r.MaxTokens > 0 {
		return min(r.MaxTokens, room)
	}
	return room
}

// step keeps the state after a step.
func (s *sequences) step(t engine.Step) {
	s.running.Set(float64(t.Running))
	s.waiting.Set(float64(t.Waiting))
	s.waitingCapacity.Set(float64(t.Waiting)) // nothing else defers a sequence
	s.cachedBlocks.Set(float64(t.CachedBlocks))
	if t.Rows > 0 { // and not the engine falling idle
		observe(s.stepTime, t.Start, t.End)
	}
	s.kvCacheUsage.Set(float64(t.UsedBlocks) / float64(max(t.Blocks, 1)))
	if n := t.Prompt + t.Sampled; n > 0 {
		s.iterationTokens.Observe(float64(n))
	}
}

// computed is the part of the prompt that was not found in the prefix cache.
func computed(l *engine.Life) int { return l.PromptTokens - l.CachedTokens }

// observe enters an interval, if both of its ends have happened.
func observe(h prometheus.Histogram, from, to time.Duration) {
	if from > 0 && to >= from {
		h.Observe((to - from).Seconds())
	}
}
