package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// kind is what a record does to an account. Its number is the kind that the
// ledger keeps.
type kind int32

const (
	chargeKind     kind = 1
	creditKind     kind = 2 // takes back a charge of the same request
	correctionKind kind = 3 // changes what earlier records say, in either direction
)

var kindNames = [...]string{chargeKind: "charge", creditKind: "credit", correctionKind: "correction"}

// chargeIndex is the place of a request's charge among the records of a call,
// which is a part of its name in the ledger.
const chargeIndex = 0

// amount is a cost with a sign, in units of the currency's last place.
type amount struct {
	uint128
	negative bool
}

// difference is is - was.
func difference(is, was uint128) amount {
	if is.less(was) {
		return amount{was.minus(is), true}
	}
	return amount{is.minus(was), false}
}

func (b *book) decimal(a amount) string {
	var text [48]byte
	dst := text[:0]
	if a.negative && a.uint128 != (uint128{}) {
		dst = append(dst, '-')
	}
	return string(a.appendDecimal(dst, b.scale))
}

// begin writes what all records have. cost is what the record adds to the
// account: the sum over all records of a request is what it costs.
func (c *config) begin(w *wasmeter.JSON, k kind, r wasmeter.Request, cost amount) {
	w.Str("kind", kindNames[k]).Str("tenant", r.Tenant()).Str("model", r.Model()).
		Str("outcome", outcome.Name(r.Outcome())).
		Str("currency", c.currency).Str("cost", c.book.decimal(cost))
	if c.book.version != "" {
		w.Str("version", c.book.version)
	}
}

// write writes why a bill is as it is.
func (x *bill) write(w *wasmeter.JSON) {
	if x.entry == nil {
		w.Null("entry")
	} else {
		w.Str("entry", x.entry.model)
	}
	if x.above > 0 {
		w.Uint("above", x.above)
	}
	if x.class != nil {
		w.Object("class").Str("name", x.class.name).Uint("pays", x.class.pays).End()
	}
	if x.window != nil {
		w.Object("window").Str("name", x.window.name).Uint("pays", x.window.pays).End()
	}
	if x.minimum {
		w.Uint("minimum", x.entry.minimum)
	}
	x.writeLines(w)
}

func (x *bill) writeLines(w *wasmeter.JSON) {
	w.List("lines")
	for _, l := range x.lines[:x.num] {
		w.Object("").Str("item", itemNames[l.item]).Uint("quantity", l.quantity).Uint("price", l.price).End()
	}
	w.End()
}
