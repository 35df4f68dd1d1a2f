package replay

import (
	"cmp"
	"fmt"
	"slices"
)

// maxRows bounds an invoice: a file may name a tenant a request.
const maxRows = 100_000

// maxName bounds the names of a row. The server's own are shorter.
const maxName = 1 << 10

// Row is what a tenant's requests to a model cost in a currency.
type Row struct {
	Tenant   string `json:"tenant"`
	Model    string `json:"model"`
	Currency string `json:"currency"`
	Requests int    `json:"requests"`
	Records  int    `json:"records"`
	Amount   Amount `json:"amount"`
}

// rowKey tells rows apart.
type rowKey struct{ tenant, model, currency string }

// invoice sums charges.
type invoice struct{ rows map[rowKey]*Row }

// add adds what one request cost in a currency.
func (v *invoice) add(tenant, model string, it *item) error {
	key := rowKey{tenant, model, it.currency}
	row := v.rows[key]
	if row == nil {
		if len(v.rows) == maxRows {
			return fmt.Errorf("more than %d combinations of tenant, model and currency; choose some tenants or models", maxRows)
		}
		if len(tenant) > maxName || len(model) > maxName {
			return fmt.Errorf("tenant or model has a name of more than %d bytes: %.60q, %.60q", maxName, tenant, model)
		}
		row = &Row{Tenant: tenant, Model: model, Currency: it.currency}
		v.rows[key] = row
	}
	row.Requests++
	row.Records += it.records
	row.Amount.Add(&it.amount)
	return nil
}

// list gives the rows in order.
func (v *invoice) list() []Row {
	list := make([]Row, 0, len(v.rows)) // [] in JSON, not null
	for _, row := range v.rows {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Currency, b.Currency))
	})
	return list
}

// Total is what all requests cost in a currency.
type Total struct {
	Currency string `json:"currency"`
	Amount   Amount `json:"amount"`
}

// totals sums the rows of each currency.
func totals(rows []Row) []Total {
	sums := make(map[string]*Amount)
	for i := range rows {
		sum := sums[rows[i].Currency]
		if sum == nil {
			sum = new(Amount)
			sums[rows[i].Currency] = sum
		}
		sum.Add(&rows[i].Amount)
	}
	list := make([]Total, 0, len(sums))
	for currency, sum := range sums {
		list = append(list, Total{currency, *sum})
	}
	slices.SortFunc(list, func(a, b Total) int { return cmp.Compare(a.Currency, b.Currency) })
	return list
}
