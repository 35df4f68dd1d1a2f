package replay

import (
	"cmp"
	"errors"
	"slices"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// tally gathers what requests cost, and what went wrong.
type tally struct {
	members  Members
	bill     []item // of the request under way
	priced   int
	noRecord int // requests without a record, that did not fail
	noAmount int // records that are not about money
	failures map[failed]*Failures
	invoice  invoice
}

func newTally(members Members) tally {
	return tally{members: members, failures: make(map[failed]*Failures), invoice: invoice{make(map[rowKey]*Row)}}
}

// item is what one request costs in one currency.
type item struct {
	currency string
	records  int
	amount   Amount
}

// failed is a way to fail.
type failed struct {
	hook plugin.Hook
	kind string
}

// Failures are the failures of one kind.
type Failures struct {
	Hook  string `json:"hook"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	// Example is what went wrong the first time, and with which attempt.
	Example string `json:"example"`
	Attempt string `json:"attempt_id"`
}

// kindAmount is a record whose amount can't be read.
const kindAmount = "bad_amount"

// add puts the amount of a record to the request's bill.
func (t *tally) add(frame *plugin.Frame, record []byte) {
	c, err := t.members.read(record)
	switch {
	case errors.Is(err, errNoAmount):
		t.noAmount++
		return
	case err != nil:
		t.note(frame, failed{plugin.HookFinish, kindAmount}, err)
		return
	}
	at := slices.IndexFunc(t.bill, func(it item) bool { return it.currency == c.currency })
	if at < 0 {
		at = len(t.bill)
		t.bill = append(t.bill, item{currency: c.currency})
	}
	t.bill[at].records++
	t.bill[at].amount.Add(&c.amount)
}

// enter puts the request's bill into the invoice.
func (t *tally) enter(frame *plugin.Frame) ([]item, error) {
	for i := range t.bill {
		if err := t.invoice.add(frame.Tenant, frame.Model, &t.bill[i]); err != nil {
			return nil, err
		}
	}
	return t.bill, nil
}

// note counts a failure.
func (t *tally) note(frame *plugin.Frame, way failed, err error) {
	f := t.failures[way]
	if f == nil {
		f = &Failures{Hook: way.hook.String(), Kind: way.kind, Example: err.Error(), Attempt: frame.AttemptID}
		t.failures[way] = f
	}
	f.Count++
}

// report says what has been gathered.
func (t *tally) report() Priced {
	rows := t.invoice.list()
	r := Priced{
		Requests: t.priced, WithoutRecord: t.noRecord, WithoutAmount: t.noAmount,
		Failures: []Failures{}, Fuel: make(map[string]Quantiles), Rows: rows, Totals: totals(rows),
	}
	for _, f := range t.failures {
		r.Failures = append(r.Failures, *f)
	}
	slices.SortFunc(r.Failures, func(a, b Failures) int { return cmp.Or(cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Kind, b.Kind)) })
	return r
}
