// Command witness is a plugin that says what it sees, for the tests of replay.
package main

import (
	"errors"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{Shape: shape, Finish: finish, Choices: true, Events: true})
}

func shape(r wasmeter.Request, out *wasmeter.Answer) {
	if r.ServiceTier() == "bad shape" {
		out.Fields.Raw("x_bad", "{")
		return
	}
	out.Carry("shaped " + r.RequestID())
}

func finish(r wasmeter.Request) error {
	switch r.ServiceTier() {
	case "bad finish":
		return errors.New("no")
	case "trap":
		panic("as asked")
	case "nothing":
		return nil
	}
	count, err := wasmeter.KVAdd("requests", 1, 60)
	if err != nil {
		return err
	}
	var w wasmeter.JSON
	w.Int("now", wasmeter.NowUnixNS()).Int("count", count).Bool("replay", r.Flags().Any(wasmeter.Replay)).Str("carry", r.Carry())
	w.Uint("document", uint64(len(r.Document()))).Str("currency", r.Carry())
	return wasmeter.Emit(1, &w)
}
