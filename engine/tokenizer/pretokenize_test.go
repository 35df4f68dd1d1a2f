package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// cut returns the lengths of the words of text.
func cut(text string, split splitter) (lengths []int) {
	for len(text) > 0 {
		n := split(text)
		lengths = append(lengths, n)
		text = text[n:]
	}
	return lengths
}

// TestPreTokenizers compares with the regular expressions themselves, run by
// the Hugging Face library.
func TestPreTokenizers(t *testing.T) {
	var golden struct{ Cases []map[string]json.RawMessage }
	readJSON(t, "testdata/pretokenize.json", &golden)
	if len(golden.Cases) < 450 {
		t.Fatalf("got %d cases, want 450 and more", len(golden.Cases))
	}
	for _, name := range []string{"smollm", "gpt2", "llama-bpe", "qwen2", "tekken"} {
		t.Run(name, func(t *testing.T) {
			pre, err := preTokenizer(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range golden.Cases {
				var text string
				var want []int
				if err := json.Unmarshal(c["text"], &text); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(c[name], &want); err != nil {
					t.Fatal(err)
				}
				if got := cut(text, pre.split); !slices.Equal(got, want) {
					t.Errorf("cut %q:\ngot  %d\nwant %d", text, got, want)
				}
			}
		})
	}
}

func TestPreTokenizerNames(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama3", "llama-v3", "deepseek-r1-qwen"} {
		if _, err := preTokenizer(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "deepseek-llm"} {
		_, err := preTokenizer(name)
		if err == nil || !strings.Contains(err.Error(), "the supported ones are smollm, gpt2 (gpt-2), llama-bpe (llama3, llama-v3), qwen2 (deepseek-r1-qwen), tekken") {
			t.Errorf("%q: got error %v", name, err)
		}
	}
}

// TestClasses compares the short way of ASCII with the tables.
func TestClasses(t *testing.T) {
	for r := range rune(utf8.RuneSelf) {
		want := other
		switch {
		case unicode.Is(unicode.L, r):
			want = letter
		case unicode.Is(unicode.N, r):
			want = number
		case unicode.Is(unicode.White_Space, r):
			want = space
		}
		if got, n := classOf(string(r)); got != want || n != 1 {
			t.Errorf("class of %q: got %d of %d bytes, want %d of 1", r, got, n, want)
		}
	}
}

// FuzzSplit holds that words cover any text without gap and are never empty.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{"", "it's 12 o'clock\r\n\n", " \u00a0'ſ\xff\xe2\x82", "\xff'\xffs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"smollm", "gpt2", "llama-bpe", "qwen2", "tekken"} {
			pre, err := preTokenizer(name)
			if err != nil {
				t.Fatal(err)
			}
			for rest := text; len(rest) > 0; {
				n := pre.split(rest)
				if n < 1 || n > len(rest) {
					t.Fatalf("%s: first word of %q has %d bytes, want 1 to %d", name, rest, n, len(rest))
				}
				rest = rest[n:]
			}
		}
	})
}
