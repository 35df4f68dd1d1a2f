package openai

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestUsageGate runs vLLM's 22 combinations. Forcing differs on purpose: it adds the final chunk, and usage on every chunk only
// where the client asked for it or the server is set to continuous.
func TestUsageGate(t *testing.T) {
	var file struct {
		Cases []struct {
			Options jsontext.Value `json:"stream_options"`
			Force   bool           `json:"force"`
			Want    [2]bool        `json:"want"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(read(t, "vllm", "usage-gate.json"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 22 {
		t.Fatalf("%d cases, want 22", len(file.Cases))
	}
	for _, c := range file.Cases {
		r, err := DecodeChat([]byte(chatWith(`,"stream":true,"stream_options":` + string(c.Options))))
		if err != nil {
			t.Fatalf("%s: %v", c.Options, err)
		}
		check := func(force ForceUsage, want UsageGate) {
			t.Helper()
			if got := r.StreamOptions.Gate(force); got != want {
				t.Errorf("stream_options %s, force %d: got %+v, want %+v", c.Options, force, got, want)
			}
		}
		want := UsageGate{Final: c.Want[0], Continuous: c.Want[1]}
		if !c.Force {
			check(ForceOff, want)
			continue
		}
		check(ForceContinuous, want)
		want.Continuous = r.StreamOptions.Gate(ForceOff).Continuous
		check(ForceFinal, want)
	}
}
