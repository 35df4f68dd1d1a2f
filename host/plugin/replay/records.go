package replay

import (
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// WriteRecords has each record that the plugin emits written to a file, a JSON
// object a line: the attempt, and what a ledger has of an emitted record. Plugin,
// attempt and index are its key, under which whoever takes it takes it once.
func (p *Pricer) WriteRecords(to io.Writer) { p.records = to }

// writeRecords writes what a finish has emitted.
func (p *Pricer) writeRecords(frame *plugin.Frame, records []plugin.Record) error {
	if p.records == nil {
		return nil
	}
	p.line = p.line[:0]
	for i := range records {
		r := &records[i]
		p.line = append(p.line, `{"attempt_id":`...)
		p.line, _ = jsontext.AppendQuote(p.line, frame.AttemptID) // the error says that it was no UTF-8 and is now
		p.line = append(p.line, `,"plugin":`...)
		p.line, _ = jsontext.AppendQuote(p.line, r.Plugin)
		p.line = strconv.AppendInt(append(p.line, `,"index":`...), int64(r.Index), 10)
		p.line = strconv.AppendInt(append(p.line, `,"kind":`...), int64(r.Kind), 10)
		p.line = append(append(append(p.line, `,"data":`...), r.Data...), '}', '\n')
	}
	if _, err := p.records.Write(p.line); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}
