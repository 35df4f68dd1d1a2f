package plugin

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// exampleFrame is the worked example of ABI.md.
func exampleFrame() *Frame {
	return &Frame{
		Flags: FlagTimingsWanted, Endpoint: EndpointChat, Outcome: OutcomeStop, N: 1, Prompts: 1, HTTPStatus: 200,
		ArrivalUnixNS: 1_700_000_000_000_000_000, PromptTokens: 31, CompletionTokens: 10, DeliveredTokens: 10, MaxTokens: 64,
		QueuedNS: 1_000_000, ScheduledNS: 3_500_001, FirstTokenNS: 45_500_001, LastTokenNS: 1_545_750_001, FinishedNS: 1_545_900_000,
		RequestID: "chatcmpl-1", Model: "smollm2", Tenant: "acme",
	}
}

// The bytes printed in ABI.md are those of the encoder.
func TestABIExample(t *testing.T) {
	page, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, dump, found := strings.Cut(string(page), "```frame\n")
	dump, _, closed := strings.Cut(dump, "```")
	if !found || !closed {
		t.Fatal("ABI.md has no block marked frame")
	}
	var want []byte
	for line := range strings.Lines(dump) {
		_, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		digits, _, _ = strings.Cut(digits, "|")
		row, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		want = append(want, row...)
	}
	if got := exampleFrame().Append(nil, HookShape); !bytes.Equal(got, want) {
		t.Errorf("the encoder gives\n%sABI.md prints\n%s", hex.Dump(got), hex.Dump(want))
	}
}

// The record printed in ABI.md is one that emit takes, and as long as it says.
func TestABIRecord(t *testing.T) {
	page, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, record, _ := strings.Cut(string(page), "```record\n")
	record, _, closed := strings.Cut(record, "\n```")
	call := fmt.Sprintf("`emit(1, 0x15000, %d)`, which returns 0", len(record))
	if !closed || !strings.Contains(string(page), call) {
		t.Errorf("ABI.md does not say %s of %s", call, record)
	}
	p := newBench(t).mustLoad(t, emitter(1, record, opI32(0)), grant(Grants{Emit: true}))
	if finished := newChain(t, p).Finish(t.Context(), exampleFrame(), new(State)); len(finished.Records) != 1 || string(finished.Records[0].Data) != record {
		t.Errorf("got %+v, want the record %s", finished, record)
	}
}

// ABI.md names every export, import, flag and limit that the code has.
func TestABINamesAll(t *testing.T) {
	page, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, rule := range exportRules {
		names = append(names, rule.name)
	}
	for _, rule := range importRules {
		names = append(names, rule.name)
	}
	for name := range wasiRules {
		names = append(names, name)
	}
	for _, kind := range []FailureKind{
		FailureTrap, FailureOutOfFuel, FailureMemory, FailureTimeout, FailureBadResult, FailureDeniedKey, FailurePoolExhausted, FailureInit,
		FailureBreakerOpen,
	} {
		names = append(names, string(kind))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("ABI.md does not name `%s`", name)
		}
	}
}
