package main

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// prices are micro-dollars for a million tokens. So far below a cent, published
// prices are whole numbers, and adding them up is exact.
type prices struct{ input, output uint64 }

// mostPrice is 2,000 dollars: at this price the cost of as many tokens as a
// request can count fits into 64 bits.
const mostPrice = 2_000_000_000

// cost is in micro-dollars, rounded half up.
func (p *prices) cost(inputTokens, outputTokens uint32) uint64 {
	const million = 1_000_000
	return (uint64(inputTokens)*p.input + uint64(outputTokens)*p.output + million/2) / million
}

// read takes the prices from the plugin's config, {"input": 2500000, "output":
// 10000000}. It wants both and nothing else: a misspelt price must not be 0.
func (p *prices) read(config []byte) error {
	missing := map[string]*uint64{"input": &p.input, "output": &p.output}
	// encoding/json needs files, of which a plugin has none; jsontext does not.
	decoder := jsontext.NewDecoder(bytes.NewReader(config))
	if _, err := decoder.ReadToken(); err != nil { // the opening brace
		return err
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return err
		}
		key := name.String() // the next read takes the token's place
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		price := missing[key]
		if price == nil {
			return errors.New(key + ": unknown price; use input and output")
		}
		if *price, err = strconv.ParseUint(string(value), 10, 64); err != nil || *price > mostPrice {
			return errors.New(key + ": " + string(value) + " is not a whole number of micro-dollars in 0 … 2000000000")
		}
		delete(missing, key)
	}
	for key := range missing {
		return errors.New(key + ": missing; write the micro-dollars for a million tokens")
	}
	return nil
}
