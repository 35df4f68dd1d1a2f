package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Members names what records say an amount with.
type Members struct {
	// Amounts are names of members; the first that a record has is its amount:
	// a number or a string of one, in whole units of the currency, or in
	// millionths of one where the name has the word micro: cost_micro_usd.
	Amounts []string
	// Currency is the name of the member that says the currency.
	Currency string
}

// DefaultMembers are those of the plugins that come with the server.
func DefaultMembers() Members {
	return Members{Amounts: []string{"cost", "cost_micro_usd", "amount"}, Currency: "currency"}
}

// maxCurrency is more than any code has.
const maxCurrency = 32

// errNoAmount is a record that is not about money.
var errNoAmount = errors.New("the record has no amount")

// charge is what a record says.
type charge struct {
	currency string
	amount   Amount
}

// read reads the charge of a record, a strict JSON object.
func (m *Members) read(record []byte) (charge, error) {
	var c charge
	found := len(m.Amounts) // the place of the amount in the list
	err := eachMember(record, func(name string, value jsontext.Value) error {
		var err error
		if name == m.Currency && value.Kind() == '"' {
			if c.currency, err = text(value); err != nil || len(c.currency) > maxCurrency {
				return fmt.Errorf("%s: %.80s is no currency", name, value)
			}
		}
		if at := slices.Index(m.Amounts[:found], name); at >= 0 {
			found = at
			c.amount, err = readAmount(name, value)
		}
		return err
	})
	if err == nil && found == len(m.Amounts) {
		err = errNoAmount
	}
	return c, err
}

// readAmount reads the value of an amount's member.
func readAmount(name string, value jsontext.Value) (Amount, error) {
	digits := string(value)
	switch value.Kind() {
	case '"':
		var err error
		if digits, err = text(value); err != nil {
			return Amount{}, err
		}
	case '0':
	case 'n':
		return Amount{}, nil
	default:
		return Amount{}, fmt.Errorf("%s: %.80s is neither a number, a string of one nor null", name, value)
	}
	a, err := ParseAmount(digits)
	if err != nil {
		return Amount{}, fmt.Errorf("%s: %w", name, err)
	}
	if isMicro(name) {
		a.places += 6
	}
	return a, nil
}

// isMicro reports whether micro is one of the words of a name.
func isMicro(name string) bool {
	for word := range strings.SplitSeq(name, "_") {
		if word == "micro" {
			return true
		}
	}
	return false
}

func text(quoted jsontext.Value) (string, error) {
	plain, err := jsontext.AppendUnquote(nil, quoted)
	return string(plain), err
}
