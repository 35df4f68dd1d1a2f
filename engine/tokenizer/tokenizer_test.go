package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

const modelPath = "../../models/SmolLM2-135M-Instruct.Q4_1.gguf"

// smolLM2 returns the tokenizer of the real model.
func smolLM2(t testing.TB) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(modelPath)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no model at %s; run: make model", modelPath)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// TestGolden compares with the ids that the Hugging Face library and
// llama-server agree on; the file names the versions.
func TestGolden(t *testing.T) {
	var golden struct {
		Cases []struct {
			Text   string
			Parsed []int32 `json:"ids"`
			AsText []int32 `json:"ids_no_special"`
		}
	}
	readJSON(t, "testdata/smollm2-tokens.json", &golden)
	if len(golden.Cases) != 55 {
		t.Fatalf("got %d cases, want 55", len(golden.Cases))
	}
	tok := smolLM2(t)
	for _, c := range golden.Cases {
		if got := tok.Encode(nil, c.Text, Parsed); !slices.Equal(got, c.Parsed) {
			t.Errorf("encode %q, parsed:\ngot  %d\nwant %d", c.Text, got, c.Parsed)
		}
		got := tok.Encode(nil, c.Text, AsText)
		if !slices.Equal(got, c.AsText) {
			t.Errorf("encode %q, as text:\ngot  %d\nwant %d", c.Text, got, c.AsText)
		}
		var text []byte
		for _, id := range got {
			text = append(text, tok.Piece(id)...)
		}
		if string(text) != c.Text {
			t.Errorf("pieces of %q: got %q", c.Text, text)
		}
	}
}
