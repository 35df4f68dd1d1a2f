package main

// tier is what tokens cost in requests with long prompts: in all of the request,
// not only those above the limit, as the providers have it.
type tier struct {
	above  uint64 // prompt tokens
	prices prices
}

// price is what the item costs by the prices p and the fees of e.
func (p *prices) price(e *entry, i item) uint64 {
	if i < numTokenItems {
		return p[i]
	}
	return e.fees[i-numTokenItems]
}

// pricesAt gives the prices for a prompt of that many tokens, and the limit that they
// begin above, 0 for those of the entry itself.
func (e *entry) pricesAt(promptTokens uint64) (p *prices, above uint64) {
	p = &e.prices
	for i := range e.tiers {
		if promptTokens <= e.tiers[i].above {
			break
		}
		p, above = &e.tiers[i].prices, e.tiers[i].above
	}
	return p, above
}
