package replay

import (
	"bytes"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// TestParseAmount: the values were written down by hand.
func TestParseAmount(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.00": "0", "12": "12", "-12.50": "-12.5", "0.000001": "0.000001", "-0.1": "-0.1",
		"1e3": "1000", "1.5E+2": "150", "15e-1": "1.5", "1e-32": "0.00000000000000000000000000000001",
		"99999999999999999999999999999999.5": "99999999999999999999999999999999.5",
	} {
		a, err := ParseAmount(text)
		if got := a.String(); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-", "+1", "1.", ".5", "--1", "1,5", "0x1", "NaN", "Infinity", "1e", "1e+-3", "1e1000000000", "1e33", "1e-33", " 1", "1 ",
		strings.Repeat("9", maxDigits+1), "0." + strings.Repeat("1", maxPlaces+1),
	} {
		if a, err := ParseAmount(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, a)
		}
	}
}

// FuzzAmount compares with math/big's fractions.
func FuzzAmount(f *testing.F) {
	f.Add("1.5", "-0.25")
	f.Add("1e3", "0.000001")
	f.Add("-7", "7e-1")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, err := ParseAmount(x)
		b, otherErr := ParseAmount(y)
		if err != nil || otherErr != nil {
			return
		}
		rat := func(text string) *big.Rat {
			r, ok := new(big.Rat).SetString(text)
			if !ok {
				t.Fatalf("%q is no number to math/big", text)
			}
			return r
		}
		p, q := rat(x), rat(y)
		if got := a.larger(&b); got != (new(big.Rat).Abs(p).Cmp(new(big.Rat).Abs(q)) > 0) {
			t.Errorf("%s further from 0 than %s: got %v", x, y, got)
		}
		difference := a.minus(&b)
		if rat(difference.String()).Cmp(new(big.Rat).Sub(p, q)) != 0 {
			t.Errorf("%s - %s: got %s", x, y, difference)
		}
		a.Add(&b)
		if rat(a.String()).Cmp(new(big.Rat).Add(p, q)) != 0 || a.Sign() != new(big.Rat).Add(p, q).Sign() {
			t.Errorf("%s + %s: got %s", x, y, a)
		}
	})
}

// FuzzRecords: no record and no list of them makes a reader panic, and what is
// read is within bounds.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"cost":"1.5","currency":"EUR"}`))
	f.Add([]byte(`[{"plugin":"billing","index":0,"kind":1,"data":{"cost_micro_usd":5}}]`))
	f.Add([]byte(`[{"data":{}},3]`))
	members := DefaultMembers()
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := members.read(text); err == nil && (c.amount.places > maxPlaces+6 || len(c.currency) > maxCurrency) {
			t.Errorf("%q: got %s %s", text, c.amount, c.currency)
		}
		if !jsontext.Value(text).IsValid() {
			return // a reader has checked the line
		}
		b := NewBilled("billing", members)
		if _, err := b.price(t.Context(), &plugin.Frame{}, bytes.TrimSpace(text)); err == nil && b.tally.priced != 1 {
			t.Errorf("%q: %d requests", text, b.tally.priced)
		}
	})
}

func TestPercent(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"0", "1", ""}, {"1", "1", "0.00 %"}, {"1", "1.5", "+50.00 %"}, {"3", "2", "-33.33 %"}, {"0.001", "0", "-100.00 %"}, {"-1", "1", "+200.00 %"}, {"-1", "-2", "-100.00 %"},
	} {
		before, err := ParseAmount(c.before)
		if err != nil {
			t.Fatal(err)
		}
		after, err := ParseAmount(c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := percent(&before, &after); got != c.want {
			t.Errorf("%s to %s: got %q, want %q", c.before, c.after, got, c.want)
		}
	}
}

func TestReadCharge(t *testing.T) {
	members := DefaultMembers()
	for _, c := range []struct{ record, want string }{
		{`{"cost":"12.34","currency":"EUR"}`, "12.34 EUR"},
		{`{"cost_micro_usd":215,"currency":"USD"}`, "0.000215 USD"},
		{`{"amount":0.1}`, "0.1 "},
		{`{"amount":7,"cost_micro_usd":5,"cost":"-1.50","x":{"cost":9}}`, "-1.5 "},
		{`{"cost":"1","amount":7}`, "1 "},
		{`{"c\u006fst":"2"}`, "2 "},
		{`{"cost":null}`, "0 "},
		{`{"cost":1e2,"currency":null}`, "100 "},
		{`{}`, "the record has no amount"},
		{`{"micro":1}`, "the record has no amount"},
		{`{"cost":true}`, "cost: true is neither"},
		{`{"cost":"much"}`, `cost: "much" is not a decimal`},
		{`{"cost":1e400}`, `cost: "1e400" is not a decimal`},
		{`{"cost":1,"currency":"` + strings.Repeat("x", 33) + `"}`, "is no currency"},
	} {
		got, err := members.read([]byte(c.record))
		text := got.amount.String() + " " + got.currency
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) {
			t.Errorf("%s: got %s, want %s", c.record, text, c.want)
		}
	}
	if isMicro("cost_microscope") || !isMicro("micro") || !isMicro("amount_micro_eur") {
		t.Error("micro is a word between underlines")
	}
}
