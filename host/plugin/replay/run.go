package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Options steer a Run.
type Options struct {
	Filter Filter
	// Top is how many of the largest changes are told.
	Top int
}

// Report is what a Run found.
type Report struct {
	// Requests were replayed, Skipped were left out by the filter.
	Requests int `json:"requests"`
	Skipped  int `json:"skipped"`
	// TornBytes is the length of a last line that was cut off.
	TornBytes int       `json:"torn_bytes"`
	First     time.Time `json:"first,omitzero"` // arrivals
	Last      time.Time `json:"last,omitzero"`

	After Priced `json:"after"`
	// Before and Difference are there if two were compared.
	Before     *Priced     `json:"before,omitempty"`
	Difference *Difference `json:"difference,omitempty"`
}

// Priced is what a plugin made of the requests.
type Priced struct {
	SHA256   string `json:"sha256"` // "" of what was billed
	Requests int    `json:"requests"`
	// Outside are the requests that its match does not cover.
	Outside int `json:"outside"`
	// WithoutRecord are those for which it emitted nothing, though it did not
	// fail; WithoutAmount counts its records that are not about money.
	WithoutRecord int `json:"without_record"`
	WithoutAmount int `json:"without_amount"`
	// WithoutChoices and WithoutEvents are the requests whose frames lack a
	// table that the plugin reads: no plugin of the server asked for it.
	WithoutChoices int `json:"without_choices"`
	WithoutEvents  int `json:"without_events"`

	Finishes bool                 `json:"finishes"` // it has the hook that emits
	Failures []Failures           `json:"failures"`
	Fuel     map[string]Quantiles `json:"fuel"` // of a call, by hook
	Rows     []Row                `json:"rows"`
	Totals   []Total              `json:"totals"`
}

// Side is one of two invoices: a Pricer, or Billed.
type Side interface {
	// price gives what a request costs, until the next call; emitted is what the
	// ledger says.
	price(ctx context.Context, frame *plugin.Frame, emitted jsontext.Value) ([]item, error)
	report() Priced
}

// Run hands each request to after, and to before if that is not nil.
func Run(ctx context.Context, from *Reader, options Options, after, before Side) (*Report, error) {
	report := new(Report)
	changes := &changes{top: options.Top}
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("replay stopped after %d requests: %w", report.Requests, err)
		}
		frame, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !options.Filter.covers(frame) {
			report.Skipped++
			continue
		}
		report.count(arrival(frame))
		frame.Flags |= plugin.FlagReplay
		now, err := after.price(ctx, frame, from.emitted)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", from.line, err)
		}
		if before == nil {
			continue
		}
		was, err := before.price(ctx, frame, from.emitted)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", from.line, err)
		}
		changes.add(frame, was, now)
	}
	report.TornBytes = from.Torn()
	report.After = after.report()
	if before != nil {
		was := before.report()
		report.Before = &was
		report.Difference = changes.report(was.Rows, report.After.Rows)
	}
	return report, nil
}

func (r *Report) count(at time.Time) {
	r.Requests++
	if r.First.IsZero() || at.Before(r.First) {
		r.First = at.UTC()
	}
	if at.After(r.Last) {
		r.Last = at.UTC()
	}
}
