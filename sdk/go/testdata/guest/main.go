// Command guest does what the request's model is named for. TestGuest builds
// it and runs it in the host's sandbox.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{Init: start, Shape: shape, Events: true, Choices: true})
}

var hoard [][]byte

func start(config []byte) error {
	if strings.Contains(string(config), "refuse") {
		return errors.New("this configuration has no price book")
	}
	return nil
}

func shape(r wasmeter.Request, fields *wasmeter.JSON) {
	switch r.Model() {
	case "nothing":
	case "tables":
		events, choices := fields.Object("x_test").List("events"), 0
		for e := range r.Events() {
			events.Uint("", e.TimeNS)
		}
		events.End()
		for c := range r.Choices() {
			choices += int(c.CompletionTokens)
		}
		fields.Int("choices", int64(choices))
	case "length":
		fields.Int("x_test", int64(len(r.Metadata())))
	case "log":
		wasmeter.Log(wasmeter.Warn, "price of "+r.Tenant()+" is missing")
	case "sleep":
		began := time.Now()
		time.Sleep(time.Hour)
		fields.Bool("x_test", time.Since(began) >= time.Hour)
	case "panic":
		panic("no price for " + r.Tenant())
	case "exit":
		os.Exit(3)
	case "library":
		fields.Str("x_test", fmt.Sprintf("<%s>", r.Tenant()))
	case "stderr":
		fmt.Fprintln(os.Stderr, "no price")
	case "block":
		<-make(chan struct{})
	case "hoard":
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	default:
		fields.Null("x_test")
	}
}
