// Command billing is the plugin that puts a price on each request: into the
// answer, and into the records of the ledger. README.md has its rules.
package main

import (
	"strconv"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func main() {}

func init() { wasmeter.Register(wasmeter.Plugin{Init: start}) }

// start reads the configuration and registers the hooks that it needs.
func start(text []byte) error {
	c, err := readConfig(text)
	if err != nil {
		return err
	}
	wasmeter.Register(c.hooks())
	return nil
}

func (c *config) hooks() wasmeter.Plugin {
	p := wasmeter.Plugin{Finish: c.finish, Choices: true}
	if c.corrects.plugin != "" {
		return p // a replay has neither requests nor answers
	}
	if c.answer.quote != "" || c.book.refuses() {
		p.Request = c.admit
	}
	if c.answer.field != "" || c.answer.usage != "" {
		p.Shape = c.shape
	}
	return p
}

// admit refuses a request that can't be billed, and says what it will cost. A
// request that was never made gets both, if it may: so a missing grant is found
// before the plugin is used.
func (c *config) admit(r wasmeter.Request, out *wasmeter.Answer) {
	b := &c.book
	e := b.find(r.Model())
	if e == nil && b.refuses() {
		out.Deny(403, "model_not_priced", "the model "+strconv.Quote(shortened(r.Model()))+" has no price, and the server serves none without", 0)
		if !r.Flags().Any(wasmeter.Synthetic) {
			return
		}
		e = b.any()
	}
	if c.answer.quote == "" || e == nil {
		return
	}
	if u, known := expected(r); known {
		if x, err := b.priceAt(e, &u); err == nil { // else the account tells it
			out.Headers.Str(c.answer.quote, b.decimal(amount{uint128: x.cost})+" "+c.currency)
		}
	}
}

// shortened keeps a name to what a message has room for.
func shortened(name string) string { return name[:min(len(name), mostText)] }

// shape tells the cost with the answer.
func (c *config) shape(r wasmeter.Request, out *wasmeter.Answer) {
	b := &c.book
	a, err := b.account(r)
	if err != nil {
		// The hook has no error to return. A trap is how a plugin fails: then
		// on_error says whether there is an answer without its price.
		panic(err.Error())
	}
	cost := b.decimal(amount{uint128: a.owed()})
	if name := c.answer.field; name != "" {
		w := out.Fields.Object(name).Str("cost", cost).Str("currency", c.currency)
		if c.answer.lines {
			a.writeLines(w)
		}
		w.End()
	}
	if name := c.answer.usage; name != "" {
		out.Usage.Raw(name, cost) // a number, as others have it: its digits are exact
	}
}
