package main

import "errors"

// bill is what a usage costs, and why.
type bill struct {
	entry  *entry // nil for a model without a price
	above  uint64 // of the tier, 0 without one
	lines  [numItems]line
	num    int // of lines
	class  *class
	window *window
	// minimum says that the entry's minimum is more than the lines.
	minimum bool
	// cost is in units of the currency's last decimal place.
	cost uint128
}

// line is a priced item.
type line struct {
	item     item
	quantity uint64 // tokens, requests, calls or nanoseconds
	price    uint64 // micro-units: for a million tokens, for a request, a call or a second
}

// wholePrice is 100 % in basis points.
const wholePrice = 10_000

// sumPlaces are the decimal places in which a cost is summed: 15 of the items'
// units, 4 for the basis points of a class and 4 for those of a window.
const sumPlaces = 15 + 4 + 4

var (
	errNoPrice  = errors.New("the model has no price")
	errTooLarge = errors.New("the cost does not fit into 128 bits")
)

// price gives what a usage costs: all of it exactly, rounded half up once.
func (b *book) price(u *usage) (bill, error) {
	e := b.find(u.model)
	if e == nil {
		if b.unknown == freeUnknown {
			return bill{}, nil
		}
		return bill{}, errNoPrice
	}
	return b.priceAt(e, u)
}

// priceAt is price for the entry e.
func (b *book) priceAt(e *entry, u *usage) (bill, error) {
	all := bill{entry: e}
	var tokens *prices
	tokens, all.above = e.pricesAt(u.context)
	counts := u.counts
	for i := range numTokenItems {
		if !tokens.has(i) {
			counts[i.part()] += counts[i]
			counts[i] = 0
		}
	}
	var sum uint128
	for i, quantity := range counts {
		price := tokens.price(e, item(i))
		if quantity == 0 || price == 0 && item(i) >= numTokenItems {
			continue // a fee that there is not; tokens for nothing are worth a line
		}
		all.lines[all.num] = line{item(i), quantity, price}
		all.num++
		sum = sum.plus(product(quantity, price).times(item(i).unit()))
	}

	factors := [2]uint64{wholePrice, wholePrice}
	if all.class = b.classOf(u.class, u.model); all.class != nil {
		factors[0] = all.class.pays
	}
	if all.window = b.windowOf(u.arrival, u.model); all.window != nil {
		factors[1] = all.window.pays
	}
	sum = sum.times(factors[0]).times(factors[1])
	if least := product(e.minimum, power10(sumPlaces-microPlaces)); sum.less(least) {
		sum, all.minimum = least, true
	}
	cut := sumPlaces - b.scale
	if sum = sum.plus(tens(cut - 1).times(5)); sum.saturated() {
		return bill{}, errTooLarge
	}
	all.cost = sum.without(cut)
	return all, nil
}
