package draft

// Acceptance is a running estimate of how often a draft comes true, given that
// those before it in the step did. Old trials fade. The zero value knows
// nothing.
type Acceptance struct {
	hits, trials float64
}

// How many trials an estimate remembers, about, and how much it trusts what it
// began with. A sequence's own is quick, since a text begins to repeat itself
// and ends again; that of all sequences is slow.
const (
	sequenceMemory = 12
	engineMemory   = 200
	priorWeight    = 2
	// firstGuess is the acceptance of drafts of which none has been tried.
	firstGuess = 0.3
)

// Observe counts drafts that came true, and then those that did not.
func (a *Acceptance) Observe(hits, misses int) { a.observe(hits, misses, sequenceMemory) }

func (a *Acceptance) observe(hits, misses int, memory float64) {
	fade := 1 - 1/memory
	for range hits {
		a.hits, a.trials = a.hits*fade+1, a.trials*fade+1
	}
	for range misses {
		a.hits, a.trials = a.hits*fade, a.trials*fade+1
	}
}

// Rate is the chance that the next draft comes true. prior is where to begin;
// evidence counts hits that are known in hindsight: a match of many tokens would
// have been right so many times already.
func (a *Acceptance) Rate(prior float64, evidence int) float64 {
	return (a.hits + prior*priorWeight + float64(evidence)) / (a.trials + priorWeight + float64(evidence))
}

// Prior is the estimate over all sequences, where those begin that have tried
// nothing. The zero value knows nothing.
type Prior struct{ all Acceptance }

// Observe counts as Acceptance.Observe does.
func (p *Prior) Observe(hits, misses int) { p.all.observe(hits, misses, engineMemory) }

// Rate is the chance that a draft comes true.
func (p *Prior) Rate() float64 { return p.all.Rate(firstGuess, 0) }
