//go:build wasip1

// Command go is the guest of the conformance kit; ../../README.md says what it
// does.
package main

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func main() {}

func init() {
	wasmeter.Register(wasmeter.Plugin{
		Init: start, Request: request, Shape: shape, Chunk: chunk, Finish: finish,
		Events: true, Choices: true, RequestDocument: true, ResponseDocument: true,
	})
}

// What the configuration says.
var (
	task  string
	about []byte
)

var hoard [][]byte

func start(config []byte) error {
	var why string
	err := members(config, func(key string, value jsontext.Value) {
		switch key {
		case "do":
			task, _ = text(value)
		case "why":
			why, _ = text(value)
		case "about":
			about = value.Clone()
		}
	})
	if err == nil && task == "refuse" {
		err = errors.New(why)
	}
	return err
}

// members calls use with what is directly in an object or list.
func members(value []byte, use func(key string, value jsontext.Value)) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(value))
	first, err := decoder.ReadToken()
	if err != nil || first.Kind() != '{' && first.Kind() != '[' {
		return err
	}
	object := first.Kind() == '{'
	for decoder.PeekKind() != '}' && decoder.PeekKind() != ']' {
		var key string
		if object {
			name, err := decoder.ReadToken()
			if err != nil {
				return err
			}
			key = name.String()
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		use(key, value)
	}
	return nil
}

// text gives a string's text.
func text(value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		return "", false
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	return string(plain), err == nil
}

func request(r wasmeter.Request, out *wasmeter.Answer) {
	out.Headers.Str("x-tenant", r.Tenant())
	out.Carry(r.Tenant())
	if r.Prompts() == 0 {
		out.Deny(r.HTTPStatus(), "denied", "no prompts", r.MaxTokens())
		return
	}
	out.Priority(r.Priority())
	out.DeadlineMS(r.DeadlineMS())
}

func chunk(r wasmeter.Request, out *wasmeter.Answer) { out.Replace(r.Document()) }

func shape(r wasmeter.Request, out *wasmeter.Answer) {
	switch task {
	case "echo":
		echo(r, &out.Fields)
	case "numbers":
		numbers(r, &out.Fields)
	case "config":
		configMembers(&out.Fields)
	case "answer":
		out.Fields.Uint("x_n", uint64(r.N())).Object("x_open")
		out.Usage.Str("x_model", r.Model())
		out.Headers.Str("x-tenant", r.Tenant())
		out.Carry(r.Tenant())
	case "trap":
		panic("a trap was asked for")
	case "loop":
		for {
		}
	case "hoard":
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	}
}

func echo(r wasmeter.Request, w *wasmeter.JSON) {
	w.Object("x_echo").Object("header")
	w.Uint("flags", uint64(r.Flags()))
	w.Uint("endpoint", uint64(r.Endpoint()))
	w.Uint("hook", uint64(r.Hook()))
	w.Uint("outcome", uint64(r.Outcome()))
	w.Uint("n", uint64(r.N()))
	w.Uint("prompts", uint64(r.Prompts()))
	w.Uint("http_status", uint64(r.HTTPStatus()))
	w.Uint("tool_calls", uint64(r.ToolCalls()))
	w.Uint("arrival_unix_ns", r.ArrivalUnixNS())
	w.Uint("prompt_tokens", uint64(r.PromptTokens()))
	w.Uint("completion_tokens", uint64(r.CompletionTokens()))
	w.Uint("cached_prompt_tokens", uint64(r.CachedPromptTokens()))
	w.Uint("cache_write_tokens", uint64(r.CacheWriteTokens()))
	w.Uint("reasoning_tokens", uint64(r.ReasoningTokens()))
	w.Uint("image_tokens", uint64(r.ImageTokens()))
	w.Uint("audio_tokens", uint64(r.AudioTokens()))
	w.Uint("delivered_tokens", uint64(r.DeliveredTokens()))
	w.Uint("recomputed_tokens", uint64(r.RecomputedTokens()))
	w.Uint("preemptions", uint64(r.Preemptions()))
	w.Uint("drafted_tokens", uint64(r.DraftedTokens()))
	w.Uint("accepted_tokens", uint64(r.AcceptedTokens()))
	w.Uint("max_tokens", uint64(r.MaxTokens()))
	w.Int("priority", int64(r.Priority()))
	w.Uint("slo_ttft_ms", uint64(r.SLOTTFTms()))
	w.Uint("slo_tpot_ms", uint64(r.SLOTPOTms()))
	w.Uint("deadline_ms", uint64(r.DeadlineMS()))
	w.Uint("queued_ns", r.QueuedNS())
	w.Uint("scheduled_ns", r.ScheduledNS())
	w.Uint("first_token_ns", r.FirstTokenNS())
	w.Uint("last_token_ns", r.LastTokenNS())
	w.Uint("finished_ns", r.FinishedNS())
	w.Uint("device_ns", r.DeviceNS())
	w.Uint("record_seq", r.RecordSeq())
	w.End().List("strings")
	for _, s := range [...]string{
		r.RequestID(), r.AttemptID(), r.ClientRequestID(), r.Model(), r.Tenant(), r.KeyName(), r.Adapter(),
		r.ServiceTier(), r.UserHash(), r.IdempotencyKey(), r.Metadata(), r.ChainID(), r.Carry(), r.SpecJSON(),
	} {
		w.Str("", s)
	}
	w.End().List("events")
	for e := range r.Events() {
		w.List("").Uint("", e.TimeNS).Uint("", uint64(e.Kind)).Uint("", uint64(e.Flags))
		w.Uint("", uint64(e.NumTokens)).Uint("", uint64(e.BatchTokens)).Uint("", uint64(e.Aux)).End()
	}
	w.End().List("choices")
	for c := range r.Choices() {
		w.List("")
		for _, n := range [...]uint32{
			c.Index, c.PromptIndex, uint32(c.FinishReason), c.PromptTokens, c.CachedTokens, c.CompletionTokens, c.ReasoningTokens, c.DeliveredTokens,
		} {
			w.Uint("", uint64(n))
		}
		for _, n := range [...]uint64{
			c.QueuedNS, c.ScheduledNS, c.FirstTokenNS, c.LastTokenNS, c.DeviceNS, uint64(c.Drafted), uint64(c.Accepted), uint64(c.SpecSteps),
		} {
			w.Uint("", n)
		}
		w.End()
	}
	w.End().Str("document", string(r.Document())).End()
}

func numbers(r wasmeter.Request, w *wasmeter.JSON) {
	w.Object("x_numbers")
	w.Int("int", int64(r.DeviceNS())).Uint("uint", r.RecordSeq())
	w.Millis("millis", r.QueuedNS()).Ratio("ratio", r.QueuedNS(), r.ScheduledNS())
	w.Bool("yes", true).Bool("no", false).Null("nothing")
	w.List("lists").List("").End().Object("").End()
	w.List("").Int("", -1).Str("", "a").Object("").Null("b") // four are left open
}

func configMembers(w *wasmeter.JSON) {
	w.List("x_config")
	err := members(about, func(key string, value jsontext.Value) {
		w.Object("").Str("key", key).Str("value", string(value))
		if plain, isText := text(value); isText {
			w.Str("str", plain)
		} else {
			w.Null("str")
		}
		if n, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			w.Uint("uint", n)
		} else {
			w.Null("uint")
		}
		count := uint64(0)
		if err := members(value, func(string, jsontext.Value) { count++ }); err != nil {
			panic(err)
		}
		w.Uint("members", count).End()
	})
	if err != nil {
		panic(err)
	}
	w.End()
}

func finish(r wasmeter.Request) error {
	if task == "bad" {
		return bad(r)
	}
	wasmeter.Log(wasmeter.Level(r.Outcome()%4), r.Tenant())
	half := float64(r.PromptTokens()) / 2
	metric, series := uint32(r.N()), uint32(r.Prompts())
	var first, w wasmeter.JSON
	first.Str("tenant", r.Tenant()).Uint("tokens", uint64(r.CompletionTokens()))
	w.Int("emit", code(wasmeter.Emit(r.Priority(), &first)))
	w.Int("metric_add", code(wasmeter.MetricAdd(metric, series, half)))
	w.Int("metric_observe", code(wasmeter.MetricObserve(metric, series, half)))
	w.Int("kv_set", code(wasmeter.KVSet(r.Tenant(), []byte(r.Model()), r.MaxTokens())))
	switch value, err := wasmeter.KVGet(r.Tenant()); {
	case err == nil:
		w.Str("kv_get", string(value))
	case errors.Is(err, wasmeter.Absent):
		w.Null("kv_get")
	default:
		w.Int("kv_get", code(err))
	}
	sum, err := wasmeter.KVAdd(r.Tenant(), int64(r.DeviceNS()), r.MaxTokens())
	if err != nil {
		sum = code(err)
	}
	w.Int("kv_add", sum).Int("now_unix_ns", wasmeter.NowUnixNS())
	return wasmeter.Emit(0, &w)
}

// code gives an error as the ABI has it, 0 for none.
func code(err error) int64 {
	var failure wasmeter.HostError
	errors.As(err, &failure)
	return int64(failure)
}

//go:wasmimport wasmeter_v1 log
func rawLog(level int32, ptr, n uint32)

//go:wasmimport wasmeter_v1 emit
func rawEmit(kind int32, ptr, n uint32) int32

//go:wasmimport wasmeter_v1 kv_get
func rawKVGet(key, keyLen, buffer, room uint32) int32

//go:wasmimport wasmeter_v1 kv_set
func rawKVSet(key, keyLen, value, valueLen, seconds uint32) int32

//go:wasmimport wasmeter_v1 kv_add
func rawKVAdd(key, keyLen uint32, delta int64, seconds uint32) int64

// address gives where text lies. Nothing moves in Go's memory.
func address(text []byte) uint32 { return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(text)))) }

func bad(r wasmeter.Request) error {
	const to, size = 0xfffffff0, 64
	tenant := []byte(r.Tenant())
	key, n := address(tenant), uint32(len(tenant))
	rawLog(1, to, size)
	var w wasmeter.JSON
	w.Int("emit", int64(rawEmit(1, to, size)))
	w.Int("kv_get_key", int64(rawKVGet(to, size, key, n)))
	w.Int("kv_get_buffer", int64(rawKVGet(key, n, to, size)))
	w.Int("kv_set_key", int64(rawKVSet(to, size, key, n, 1)))
	w.Int("kv_set_value", int64(rawKVSet(key, n, to, size, 1)))
	w.Int("kv_add", math.MinInt64-rawKVAdd(to, size, 1, 1))
	return wasmeter.Emit(0, &w)
}
