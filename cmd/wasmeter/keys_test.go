package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeys: a key that keys add has made opens a server, and nothing else does.
func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	code, out, errText := command(t, nil, "keys", "add", "alice", "--tenant", "acme", "--file", file)
	if code != 0 || len(strings.Fields(out)) != 1 {
		t.Fatalf("keys add: exit %d, %q, %q", code, out, errText)
	}
	p := start(t, "--api-keys-file="+file, "--api-key=given")
	for key, want := range map[string]int{"": 401, "wrong": 401, strings.TrimSpace(out): 200, "given": 200} {
		q, err := http.NewRequest("GET", p.url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			q.Header.Set("Authorization", "Bearer "+key)
		}
		a, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("key %q: %d, want %d", key, a.StatusCode, want)
		}
	}
	if code, _, errText := command(t, nil, "keys", "add", "alice", "--file", file); code != exitNotStart || !strings.Contains(errText, "two keys are named") {
		t.Errorf("the same name again: exit %d, %q", code, errText)
	}
}

func TestModelName(t *testing.T) {
	for path, want := range map[string]string{
		"models/SmolLM2-135M-Instruct.Q4_1.gguf": "SmolLM2-135M-Instruct",
		"gemma3-270m-q4_k_m.gguf":                "gemma3-270m",
		"a.F16.gguf":                             "a",
		"gpt-4.1.gguf":                           "gpt-4.1",
		"Qwen2.5-0.5B.gguf":                      "Qwen2.5-0.5B",
		"Q4_0.gguf":                              "Q4_0",
		"plain":                                  "plain",
	} {
		if got := modelName(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
