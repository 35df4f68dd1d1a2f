package replay

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Difference is what two invoices differ in.
type Difference struct {
	// Changed counts the requests that cost another amount.
	Changed int        `json:"changed"`
	Tenants []Compared `json:"tenants"`
	Totals  []Compared `json:"totals"`
	// Largest are the largest changes, the largest first.
	Largest []Change `json:"largest"`
}

// Compared is a tenant's amounts, or everybody's, in a currency.
type Compared struct {
	Tenant     string `json:"tenant"` // "" in a total
	Currency   string `json:"currency"`
	Before     Amount `json:"before"`
	After      Amount `json:"after"`
	Difference Amount `json:"difference"`
	// Percent is the difference in per cent of before, "" if that is 0.
	Percent string `json:"percent"`
}

// Change is a request that costs another amount.
type Change struct {
	RequestID  string `json:"request_id"`
	AttemptID  string `json:"attempt_id"`
	Tenant     string `json:"tenant"`
	Model      string `json:"model"`
	Currency   string `json:"currency"`
	Before     Amount `json:"before"`
	After      Amount `json:"after"`
	Difference Amount `json:"difference"`

	place int // among all changes; of equal ones the earlier counts
}

// changes gathers the requests that cost another amount.
type changes struct {
	top     int
	changed int
	amounts int // that changed; a request may have several
	largest changeHeap
}

// add compares what one request cost.
func (c *changes) add(frame *plugin.Frame, before, after []item) {
	changed := false
	compare := func(currency string, was, now *Amount) {
		difference := now.minus(was)
		if difference.Sign() == 0 {
			return
		}
		changed = true
		c.amounts++
		if len(c.largest) == c.top {
			if c.top == 0 || !difference.larger(&c.largest[0].Difference) {
				return
			}
			heap.Pop(&c.largest)
		}
		heap.Push(&c.largest, Change{
			RequestID: frame.RequestID, AttemptID: frame.AttemptID, Tenant: frame.Tenant, Model: frame.Model,
			Currency: currency, Before: was.clone(), After: now.clone(), Difference: difference,
			place: c.amounts,
		})
	}
	for i := range before {
		compare(before[i].currency, &before[i].amount, amountIn(after, before[i].currency))
	}
	for i := range after {
		if !has(before, after[i].currency) {
			compare(after[i].currency, new(Amount), &after[i].amount)
		}
	}
	if changed {
		c.changed++
	}
}

func has(bill []item, currency string) bool {
	return slices.ContainsFunc(bill, func(it item) bool { return it.currency == currency })
}

func amountIn(bill []item, currency string) *Amount {
	for i := range bill {
		if bill[i].currency == currency {
			return &bill[i].amount
		}
	}
	return new(Amount)
}

func (c *changes) report(before, after []Row) *Difference {
	d := &Difference{Changed: c.changed, Tenants: compareRows(before, after, true), Totals: compareRows(before, after, false), Largest: []Change{}}
	for len(c.largest) > 0 {
		d.Largest = append(d.Largest, heap.Pop(&c.largest).(Change))
	}
	slices.Reverse(d.Largest)
	return d
}

// compareRows sums two invoices by currency, and by tenant too if asked.
func compareRows(before, after []Row, byTenant bool) []Compared {
	sums := make(map[rowKey]*Compared)
	sum := func(row *Row) *Compared {
		key := rowKey{currency: row.Currency}
		if byTenant {
			key.tenant = row.Tenant
		}
		if sums[key] == nil {
			sums[key] = &Compared{Tenant: key.tenant, Currency: key.currency}
		}
		return sums[key]
	}
	for i := range before {
		sum(&before[i]).Before.Add(&before[i].Amount)
	}
	for i := range after {
		sum(&after[i]).After.Add(&after[i].Amount)
	}
	list := make([]Compared, 0, len(sums))
	for _, c := range sums {
		c.Difference = c.After.minus(&c.Before)
		c.Percent = percent(&c.Before, &c.After)
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Compared) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Currency, b.Currency))
	})
	return list
}

// changeHeap has the smallest of the largest changes first.
type changeHeap []Change

func (h changeHeap) Len() int { return len(h) }
func (h changeHeap) Less(i, j int) bool {
	if h[j].Difference.larger(&h[i].Difference) {
		return true
	}
	return !h[i].Difference.larger(&h[j].Difference) && h[i].place > h[j].place
}
func (h changeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *changeHeap) Push(x any) { *h = append(*h, x.(Change)) }

// Pop implements heap.Interface.
func (h *changeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
