// Command guest does what the request's model is named for. TestGuest builds
// it and runs it in the host's sandbox.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{
		Init: start, Request: request, Shape: shape, Chunk: chunk, Finish: finish,
		Events: true, Choices: true, RequestDocument: true, ResponseDocument: true,
	})
}

var hoard [][]byte

func start(config []byte) error {
	if strings.Contains(string(config), "refuse") {
		return errors.New("this configuration has no price book")
	}
	return nil
}

func request(r wasmeter.Request, out *wasmeter.Answer) {
	switch r.Model() {
	case "denied":
		out.Deny(429, "quota", "wait for "+string(r.Document()), 7)
	case "carried":
		out.Carry("from request: " + r.Tenant())
	case "headers":
		out.Headers.Str("x-plan", "free")
	}
}

func chunk(r wasmeter.Request, out *wasmeter.Answer) {
	if r.Model() == "chunk" {
		out.Replace(bytes.ReplaceAll(r.Document(), []byte("secret"), []byte("******")))
	}
}

func finish(r wasmeter.Request) error {
	switch r.Model() {
	case "emit":
		record := wasmeter.Record()
		record.Str("tenant", r.Tenant()).Int("tokens", int64(r.CompletionTokens())).Int("now", wasmeter.NowUnixNS())
		return wasmeter.Emit(7, record)
	case "count":
		if err := wasmeter.MetricAdd(0, 1, 2.5); err != nil {
			return err
		}
		if _, err := wasmeter.KVGet("spent"); err != wasmeter.Absent {
			return errors.New("spent is there already")
		}
		if err := wasmeter.KVSet("note", bytes.Repeat([]byte("n"), 1000), 60); err != nil {
			return err
		}
		note, err := wasmeter.KVGet("note")
		if err != nil || len(note) != 1000 {
			return errors.New("the note is not there")
		}
		sum, err := wasmeter.KVAdd("spent", 12, 0)
		if err != nil || sum != 12 {
			return errors.New("the sum is wrong")
		}
		_, err = wasmeter.KVAdd("note", 1, 0)
		if err != wasmeter.DeniedCall {
			return errors.New("the note is a counter")
		}
	case "refuse to finish":
		return errors.New("no price for " + r.Tenant())
	}
	return nil
}

func shape(r wasmeter.Request, out *wasmeter.Answer) {
	fields := &out.Fields
	switch r.Model() {
	case "carried":
		fields.Str("x_test", r.Carry())
	case "usage":
		out.Usage.Int("cost", 5)
		out.Headers.Str("x-plan", "paid")
		out.Carry("c")
	case "document":
		fields.Str("x_test", string(r.Document()))
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
