// Command sla is a plugin that says of each answer whether it was as fast as was
// promised, and credits what was missed. README.md has its rules.
package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// options is the configuration of this instance.
var options = defaults()

// creditKind is the kind of this plugin's records, which billing's charges have
// as 1.
const creditKind = 2

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{
		Init:    func(config []byte) error { return options.read(config) },
		Shape:   func(r wasmeter.Request, out *wasmeter.Answer) { options.shape(r, out) },
		Finish:  func(r wasmeter.Request) error { return options.finish(r) },
		Choices: true,
	})
}

// shape writes the verdict into the answer.
func (o *config) shape(r wasmeter.Request, out *wasmeter.Answer) {
	j, ok := o.judge(r)
	if !ok {
		return
	}
	w := out.Fields.Object(o.field)
	o.write(w, &j)
	w.End()
}

// finish writes the record of the request, whatever its end, and counts it.
func (o *config) finish(r wasmeter.Request) error {
	if o.metrics && r.Flags().Any(wasmeter.Synthetic) {
		if err := o.checkMetrics(); err != nil {
			return err
		}
	}
	j, ok := o.judge(r)
	if !ok {
		return nil
	}
	record := wasmeter.Record()
	record.Str("kind", "credit").Str("tenant", r.Tenant()).Str("model", r.Model()).Str("outcome", outcome.Name(r.Outcome()))
	o.write(record, &j)
	if err := wasmeter.Emit(creditKind, record); err != nil {
		return err
	}
	if o.metrics {
		return o.count(&j)
	}
	return nil
}

// write writes the members that answer and record share.
func (o *config) write(w *wasmeter.JSON, j *judgement) {
	w.Str("class", j.service.Name).Str("verdict", verdictNames[j.verdict])
	w.List("missed")
	for d, is := range j.missed {
		if is {
			w.Str("", dimensionNames[d])
		}
	}
	w.End().Object("targets")
	for d, ms := range j.targets {
		if ms > 0 {
			w.Uint(millisNames[d], ms)
		}
	}
	w.End().Object("measured")
	for d, m := range j.measured {
		if j.targets[d] > 0 {
			w.Ratio(millisNames[d], m.ns, m.over*nsPerMS) // null where over is 0
		}
	}
	w.End()
	micro, percent := j.worth()
	switch c := &j.service.credit; {
	case c.micro > 0:
		w.Uint("credit_micro", micro).Str("currency", o.currency)
	case c.percent > 0:
		w.Uint("credit_percent", percent)
	}
}
