package host

import (
	"errors"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// frame is what plugins are told: the run's life as integers. Its stamps count
// from arrival.
func (r *run) frame(usageChunk bool) plugin.Frame {
	q, g, o := r.request, r.generation, &r.server.options
	u := r.usage()
	f := plugin.Frame{
		Endpoint:           plugin.Endpoint(r.endpoint),
		Outcome:            r.outcome(),
		N:                  uint16(q.N),
		Prompts:            uint16(len(q.Prompts)),
		HTTPStatus:         uint16(r.status()),
		ArrivalUnixNS:      uint64(r.arrived.UnixNano()),
		PromptTokens:       uint32(u.Prompt),
		CompletionTokens:   uint32(u.Completion),
		CachedPromptTokens: uint32(u.Cached),
		DeliveredTokens:    uint32(u.Completion),
		MaxTokens:          uint32(g.MaxTokens.Value),
		Priority:           int32(q.Priority),
		DeadlineMS:         r.deadlineMS,
		SLOTTFTms:          r.targets.ttftMS,
		SLOTPOTms:          r.targets.tpotMS,
		RequestID:          r.requestID,
		AttemptID:          r.attemptID,
		ClientRequestID:    r.clientRequestID,
		Model:              g.Model,
		Tenant:             r.owner.Tenant,
		KeyName:            r.owner.Name,
		ServiceTier:        g.ServiceTier,
		Metadata:           string(g.Metadata),
		ChainID:            r.chain.ID(),
	}
	f.SpecJSON = r.speculation()
	flag := func(on bool, flag plugin.Flags) {
		if on {
			f.Flags |= flag
		}
	}
	flag(g.Stream, plugin.FlagStream)
	flag(q.N > 1, plugin.FlagMultiChoice)
	flag(len(q.Prompts) > 1, plugin.FlagMultiPrompt)
	flag(!o.Metrics.LogStats, plugin.FlagTimingUnknown)
	flag(o.Metrics.PerRequest, plugin.FlagTimingsWanted)
	flag(usageChunk, plugin.FlagUsageChunkWanted)
	for i := range r.choices {
		r.addLife(&f, &r.choices[i].life)
		if i%q.N == 0 { // a prompt is written once, by its first choice
			f.CacheWriteTokens += uint32(r.choices[i].life.CacheWriteTokens)
		}
	}
	if r.chain.WantsChoices() {
		f.Choices = r.choiceTable()
	}
	for i := range r.choices {
		for _, e := range r.choices[i].events {
			f.Events = append(f.Events, r.event(e))
		}
	}
	return f
}

// addLife adds one sequence's life to the frame's totals; of several, the
// earliest beginning and the latest end count.
func (r *run) addLife(f *plugin.Frame, l *engine.Life) {
	earliest := func(to *uint64, t time.Duration) {
		if ns := r.since(t); ns != 0 && (*to == 0 || ns < *to) {
			*to = ns
		}
	}
	earliest(&f.QueuedNS, l.Queued)
	earliest(&f.ScheduledNS, l.Scheduled)
	earliest(&f.FirstTokenNS, l.First)
	f.LastTokenNS = max(f.LastTokenNS, r.since(l.Last))
	f.FinishedNS = max(f.FinishedNS, r.since(l.Finished))
	f.DeviceNS += uint64(l.DeviceTime)
	f.RecomputedTokens += uint32(l.RecomputedTokens)
	f.Preemptions += uint32(l.Preemptions)
	if d := l.Drafts; d != nil {
		f.DraftedTokens += uint32(d.Drafted)
		f.AcceptedTokens += uint32(d.Accepted)
	}
}

// since is a stamp in nanoseconds since arrival: 0 if it never happened, else at
// least 1.
func (r *run) since(t time.Duration) uint64 {
	if t == 0 {
		return 0
	}
	return uint64(max(t-r.request.Arrival, 1))
}

func (r *run) choiceTable() []plugin.Choice {
	table := make([]plugin.Choice, len(r.choices))
	for i := range r.choices {
		c := &r.choices[i]
		l := &c.life
		table[i] = plugin.Choice{
			Index:            uint32(i),
			PromptIndex:      uint32(i / r.request.N),
			FinishReason:     r.choiceOutcome(c),
			PromptTokens:     uint32(l.PromptTokens),
			CachedTokens:     uint32(l.CachedTokens),
			CompletionTokens: uint32(l.CompletionTokens),
			DeliveredTokens:  uint32(l.CompletionTokens),
			QueuedNS:         r.since(l.Queued),
			ScheduledNS:      r.since(l.Scheduled),
			FirstTokenNS:     r.since(l.First),
			LastTokenNS:      r.since(l.Last),
			DeviceNS:         uint64(l.DeviceTime),
		}
		if d := l.Drafts; d != nil {
			table[i].Drafted, table[i].Accepted, table[i].SpecSteps = uint32(d.Drafted), uint32(d.Accepted), uint32(d.Steps)
		}
	}
	return table
}

func (r *run) event(e engine.Event) plugin.Event {
	aux := uint32(e.StepTime / time.Microsecond)
	if e.Kind == engine.Drafted {
		aux = uint32(e.Drafts)
	}
	return plugin.Event{
		TimeNS:      r.since(e.Time),
		Kind:        plugin.EventKind(e.Kind),
		NumTokens:   uint32(e.Tokens),
		BatchTokens: uint32(e.BatchTokens),
		Aux:         aux,
	}
}

// outcome is how the request ended: the worst end of its choices.
func (r *run) outcome() plugin.Outcome {
	if r.end != plugin.OutcomeRunning {
		return r.end
	}
	worst := plugin.OutcomeRunning
	for i := range r.choices {
		worst = max(worst, r.choiceOutcome(&r.choices[i]))
	}
	return worst
}

func (r *run) choiceOutcome(c *choice) plugin.Outcome {
	switch c.finish {
	case engine.Stop:
		return plugin.OutcomeStop
	case engine.Length:
		return plugin.OutcomeLength
	case engine.Failed:
		return plugin.OutcomeServerError
	case engine.Abort:
		switch {
		case errors.Is(c.err, engine.ErrDeadline):
			return plugin.OutcomeDeadline
		case c.err != nil:
			return plugin.OutcomeSlowReader
		case cause(r.cause.Load()) == causeShutdown:
			return plugin.OutcomeShutdown
		}
		return plugin.OutcomeClientAbort
	}
	return plugin.OutcomeRunning
}
