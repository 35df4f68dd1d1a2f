package plugin

import (
	"bytes"
	"encoding/hex"
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
	} {
		names = append(names, string(kind))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("ABI.md does not name `%s`", name)
		}
	}
}
