package main

import (
	"errors"

	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// account is what a request costs by a book.
type account struct {
	bill
	rule rule
}

// owed is what the request pays in the end.
func (a *account) owed() uint128 {
	if a.rule == payBack {
		return uint128{}
	}
	return a.cost
}

// account prices a request as it has ended. A request that was never made is
// priced by one of the book's entries, so that the test before a plugin is used
// takes the same way as those that follow.
func (b *book) account(r wasmeter.Request) (account, error) {
	a := account{rule: b.policy.rule(r.Outcome())}
	if a.rule == payNothing {
		a.entry = b.find(r.Model())
		return a, nil
	}
	u := made(r)
	if a.rule == payDelivered {
		u = delivered(r)
	}
	if !complete(r.Outcome()) && u.nothing() {
		a.entry = b.find(r.Model())
		return a, nil
	}
	var err error
	if e := b.any(); e != nil && r.Flags().Any(wasmeter.Synthetic) {
		a.bill, err = b.priceAt(e, &u)
	} else {
		a.bill, err = b.price(&u)
	}
	return a, err
}

// nothing reports whether no token was computed, so that a request that did not
// come to its end pays no fee and no minimum either.
func (u *usage) nothing() bool {
	for i := range numTokenItems {
		if u.counts[i] > 0 {
			return false
		}
	}
	return true
}

// finish keeps the records of a request.
func (c *config) finish(r wasmeter.Request) error {
	is, err := c.book.account(r)
	if err != nil {
		return err
	}
	if c.corrects.plugin != "" {
		return c.correct(r, &is)
	}
	w := wasmeter.Record()
	c.begin(w, chargeKind, r, amount{uint128: is.cost})
	w.Str("rule", ruleNames[is.rule])
	is.write(w)
	if err := wasmeter.Emit(int32(chargeKind), w); err != nil || is.rule != payBack || is.cost == (uint128{}) {
		return err
	}
	back := wasmeter.Record()
	c.begin(back, creditKind, r, amount{is.cost, true})
	back.Int("refunds", chargeIndex).Str("reason", outcome.Name(r.Outcome()))
	return wasmeter.Emit(int32(creditKind), back)
}

var errNotReplayed = errors.New("corrects is for a replay of requests that have their records; take it out of the configuration that serves")

// correct keeps a record of what changes for the request, if something does.
func (c *config) correct(r wasmeter.Request, is *account) error {
	if !r.Flags().Any(wasmeter.Replay | wasmeter.Synthetic) {
		return errNotReplayed
	}
	was, err := c.corrects.was.account(r)
	if err != nil && !errors.Is(err, errNoPrice) { // what was refused has cost nothing
		return err
	}
	change := difference(is.owed(), was.owed())
	if change.uint128 == (uint128{}) {
		return nil
	}
	w := wasmeter.Record()
	c.begin(w, correctionKind, r, change)
	w.Object("corrects").Str("attempt_id", r.AttemptID()).Str("plugin", c.corrects.plugin).Int("index", chargeIndex).End()
	w.Str("reason", c.corrects.reason)
	w.Str("was", c.book.decimal(amount{uint128: was.owed()})).Str("is", c.book.decimal(amount{uint128: is.owed()}))
	w.Str("rule", ruleNames[is.rule])
	is.write(w)
	return wasmeter.Emit(int32(correctionKind), w)
}
