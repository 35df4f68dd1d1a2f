package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin/replay"
)

// printReplay prints a report for people.
func printReplay(out io.Writer, r *replay.Report) error {
	line := fmt.Sprintf("%d requests", r.Requests)
	if r.Requests > 0 {
		line += fmt.Sprintf(" that arrived from %s to %s", r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339))
	}
	if r.Skipped > 0 {
		line += fmt.Sprintf("; %d left out", r.Skipped)
	}
	if r.TornBytes > 0 {
		line += fmt.Sprintf("\nthe last line of the file has no end and is left out: %d bytes", r.TornBytes)
	}
	_, err := fmt.Fprintln(out, line)
	if r.Difference == nil {
		return errors.Join(err, printPriced(out, "", &r.After, true))
	}
	err = errors.Join(err, printPriced(out, "before: ", r.Before, false), printPriced(out, "after: ", &r.After, false))
	return errors.Join(err, printDifference(out, r))
}

// printPriced prints what a plugin made of the requests, whole with the
// invoice.
func printPriced(out io.Writer, title string, p *replay.Priced, whole bool) error {
	var b strings.Builder
	if title != "" {
		what := "as the ledger has it"
		if p.SHA256 != "" {
			what = p.SHA256[:12]
		}
		fmt.Fprintf(&b, "\n%s%s, %d requests", title, what, p.Requests)
		for _, t := range p.Totals {
			fmt.Fprintf(&b, ", %s %s", t.Amount, orNone(t.Currency))
		}
		b.WriteByte('\n')
	}
	if !p.Finishes {
		b.WriteString("the plugin has no hook finish: it emits no records, so that there is nothing to sum\n")
	}
	for _, n := range []struct {
		count int
		what  string
	}{
		{p.Outside, "requests are not covered by the plugin's match"},
		{p.WithoutRecord, "requests have no record"},
		{p.WithoutAmount, "records have no amount (--amount)"},
		{p.WithoutChoices, "requests were recorded without the choices that the plugin reads"},
		{p.WithoutEvents, "requests were recorded without the events that the plugin reads"},
	} {
		if n.count > 0 && (p.Finishes || n.count == p.Outside) {
			fmt.Fprintf(&b, "%d %s\n", n.count, n.what)
		}
	}
	for _, f := range p.Failures {
		fmt.Fprintf(&b, "%d times %s: %s; the first is attempt %s: %s\n", f.Count, f.Hook, f.Kind, orNone(f.Attempt), f.Example)
	}
	for _, hook := range []string{"shape", "finish"} {
		if q, called := p.Fuel[hook]; called {
			fmt.Fprintf(&b, "fuel of a %s: p50 %d, p99 %d, max %d\n", hook, q.P50, q.P99, q.Max)
		}
	}
	if _, err := io.WriteString(out, b.String()); err != nil || !whole || len(p.Rows) == 0 {
		return err
	}
	table := newTable(out, "TENANT", "MODEL", "CURRENCY", "REQUESTS", "RECORDS", "AMOUNT")
	for _, row := range p.Rows {
		table.row(orNone(row.Tenant), orNone(row.Model), orNone(row.Currency), fmt.Sprint(row.Requests), fmt.Sprint(row.Records), row.Amount.String())
	}
	for _, t := range p.Totals {
		table.row("total", "", orNone(t.Currency), "", "", t.Amount.String())
	}
	return table.end()
}

func printDifference(out io.Writer, r *replay.Report) error {
	d := r.Difference
	if len(d.Totals) > 0 {
		table := newTable(out, "TENANT", "CURRENCY", "BEFORE", "AFTER", "DIFFERENCE", "CHANGE")
		for _, c := range d.Tenants {
			table.row(orNone(c.Tenant), orNone(c.Currency), c.Before.String(), c.After.String(), c.Difference.String(), c.Percent)
		}
		for _, c := range d.Totals {
			table.row("total", orNone(c.Currency), c.Before.String(), c.After.String(), c.Difference.String(), c.Percent)
		}
		if err := table.end(); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "\n%d of %d requests change\n", d.Changed, r.Requests); err != nil || len(d.Largest) == 0 {
		return err
	}
	table := newTable(out, "REQUEST", "ATTEMPT", "TENANT", "CURRENCY", "BEFORE", "AFTER", "DIFFERENCE")
	for _, c := range d.Largest {
		table.row(orNone(c.RequestID), orNone(c.AttemptID), orNone(c.Tenant), orNone(c.Currency), c.Before.String(), c.After.String(), c.Difference.String())
	}
	return table.end()
}

// orNone shows that a name is empty, and a name with characters that would
// move the terminal's cursor quoted.
func orNone(name string) string {
	if name == "" {
		return "-"
	}
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

// table is rows below a heading, with an empty line before it.
type table struct {
	writer *tabwriter.Writer
}

func newTable(out io.Writer, heading ...string) *table {
	t := &table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.writer) // tabwriter keeps the first error for Flush
	t.row(heading...)
	return t
}

// row writes a row, without blanks at its end.
func (t *table) row(cells ...string) {
	for n := len(cells); n > 0 && cells[n-1] == ""; n-- {
		cells = cells[:n-1]
	}
	fmt.Fprintln(t.writer, strings.Join(cells, "\t"))
}

func (t *table) end() error { return t.writer.Flush() }
