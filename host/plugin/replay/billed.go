package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Billed is what a plugin's records in a ledger say that requests cost: what
// was billed, as it was.
type Billed struct {
	plugin string
	tally  tally
}

// NewBilled reads the records of the plugin of that name in the server's
// configuration.
func NewBilled(name string, members Members) *Billed {
	return &Billed{plugin: name, tally: newTally(members)}
}

// errNotLedger is a file in which nothing of what was billed stands.
var errNotLedger = errors.New("no records of what was billed: this is not the ledger's own file")

func (b *Billed) price(_ context.Context, frame *plugin.Frame, emitted jsontext.Value) ([]item, error) {
	b.tally.bill = b.tally.bill[:0]
	b.tally.priced++
	if emitted.Kind() != '[' {
		return nil, errNotLedger
	}
	found := false
	err := eachRecord(emitted, func(name string, data jsontext.Value) {
		if name == b.plugin {
			found = true
			b.tally.add(frame, data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("emitted: %w", err)
	}
	if !found {
		b.tally.noRecord++
	}
	return b.tally.enter(frame)
}

func (b *Billed) report() Priced {
	r := b.tally.report()
	r.Finishes = true
	return r
}

// eachRecord calls use with each record of a ledger's list, which is sound
// JSON.
func eachRecord(emitted jsontext.Value, use func(plugin string, data jsontext.Value)) error {
	d := jsontext.NewDecoder(bytes.NewReader(emitted))
	if _, err := d.ReadToken(); err != nil { // the opening bracket
		return err
	}
	for d.PeekKind() == '{' {
		record, err := d.ReadValue()
		if err != nil {
			return err
		}
		var name string
		var data jsontext.Value
		err = eachMember(record, func(member string, value jsontext.Value) error {
			var err error
			switch {
			case member == "plugin" && value.Kind() == '"':
				name, err = text(value)
			case member == "data" && value.Kind() == '{':
				data = bytes.Clone(value)
			}
			return err
		})
		if err != nil {
			return err
		}
		if data == nil {
			return fmt.Errorf("%.80s has no data, an object", record)
		}
		use(name, data)
	}
	if kind := d.PeekKind(); kind != ']' {
		return fmt.Errorf("a list of %v; it has records", kind)
	}
	return nil
}

// eachMember calls use with the members of an object, until it fails.
func eachMember(object jsontext.Value, use func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil { // the opening brace
		return err
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String() // the next read takes the token's place
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := use(name, value); err != nil {
			return err
		}
	}
	return nil
}
