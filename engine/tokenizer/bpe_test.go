package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

type bpeGolden struct {
	Tokens      []string
	Control     []string
	UserDefined []string `json:"user_defined"`
	Merges      []string
	Cases       []struct {
		Text        string
		GPT2        []int32
		GPT2AsText  []int32 `json:"gpt2 as text"`
		Llama       []int32 `json:"llama-bpe"`
		LlamaAsText []int32 `json:"llama-bpe as text"`
	}
}

// smallVocab is the vocabulary that the Hugging Face library trained for the
// tests.
func smallVocab(t testing.TB, pre string) (Vocab, bpeGolden) {
	t.Helper()
	var g bpeGolden
	readJSON(t, "testdata/bpe.json", &g)
	v := Vocab{Model: "gpt2", Pre: pre, Merges: g.Merges, BOS: None, EOS: None}
	v.Tokens = slices.Concat(g.Tokens, g.Control, g.UserDefined)
	v.Types = slices.Concat(
		slices.Repeat([]TokenType{Normal}, len(g.Tokens)),
		slices.Repeat([]TokenType{Control}, len(g.Control)),
		slices.Repeat([]TokenType{UserDefined}, len(g.UserDefined)))
	return v, g
}

func smallTokenizer(t testing.TB, pre string) (*Tokenizer, bpeGolden) {
	t.Helper()
	v, g := smallVocab(t, pre)
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok, g
}

// TestEncode compares with the Hugging Face library: merges of short and long
// words, words that are tokens no merge reaches, and special tokens that begin
// one another.
func TestEncode(t *testing.T) {
	gpt2, g := smallTokenizer(t, "gpt2")
	llama, _ := smallTokenizer(t, "llama-bpe")
	check := func(tok *Tokenizer, name, text string, mode Special, want []int32) {
		t.Helper()
		if got := tok.Encode(nil, text, mode); !slices.Equal(got, want) {
			t.Errorf("%s: encode %q, mode %d:\ngot  %d\nwant %d", name, text, mode, got, want)
		}
	}
	orElse := func(a, b []int32) []int32 {
		if a == nil {
			return b
		}
		return a
	}
	for _, c := range g.Cases {
		check(gpt2, "gpt2", c.Text, Parsed, c.GPT2)
		check(gpt2, "gpt2", c.Text, AsText, orElse(c.GPT2AsText, c.GPT2))
		check(llama, "llama-bpe", c.Text, Parsed, c.Llama)
		check(llama, "llama-bpe", c.Text, AsText, orElse(c.LlamaAsText, c.Llama))
	}
}

// mergeSlowly is the definition of BPE: while any neighbours have a merge, the
// leftmost of those with the lowest rank become one.
func mergeSlowly(b *bpe, word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, b.bytes[word[i]])
	}
	for {
		at, best := -1, merge{}
		for i := range len(ids) - 1 {
			if m := b.pairs.find(ids[i], ids[i+1]); m.rank != noRank && (at < 0 || m.rank < best.rank) {
				at, best = i, m
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.token)
	}
}

// TestMerge compares both ways of merging with the definition, for words of
// every length around the border between them.
func TestMerge(t *testing.T) {
	tok, g := smallTokenizer(t, "gpt2")
	b := tok.text.(*bpe)
	rng := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for _, c := range g.Cases {
		text.WriteString(c.Text)
	}
	all := text.String()
	for n := range 3 * shortWord {
		for range 20 {
			at := rng.IntN(len(all) - n)
			word := all[at : at+n]
			if n > 0 && rng.IntN(2) == 0 {
				word = strings.Repeat(word[:1+rng.IntN(min(n, 3))], n)[:n]
			}
			want := mergeSlowly(b, word)
			if got := b.merge(nil, word); !slices.Equal(got, want) {
				t.Fatalf("merge %q:\ngot  %d\nwant %d", word, got, want)
			}
			if got := b.mergeLong(nil, word); !slices.Equal(got, want) {
				t.Fatalf("mergeLong %q:\ngot  %d\nwant %d", word, got, want)
			}
		}
	}
}

// TestLongWord encodes words of a megabyte. In quadratic time one would take
// minutes; the limit is that generous because the machine may be busy.
func TestLongWord(t *testing.T) {
	tok, _ := smallTokenizer(t, "gpt2")
	for _, unit := range []string{"a", "aaab", " ", "<s", "1", "é"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		start := time.Now()
		ids := tok.Encode(nil, text, Parsed)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("1 MiB of %q: took %v", unit, took)
		}
		n := 0
		for _, id := range ids {
			n += len(tok.Piece(id))
		}
		if n != len(text) {
			t.Errorf("1 MiB of %q: the tokens hold %d bytes, want %d", unit, n, len(text))
		}
	}
}

// TestLongText cuts a megabyte with each pre-tokenizer, in the same sense.
func TestLongText(t *testing.T) {
	for _, name := range []string{"smollm", "gpt2", "llama-bpe", "qwen2", "tekken"} {
		pre, err := preTokenizer(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{" ", "\n", " \n", " x", "'", "1", "\u00a0", "!\n", "\xff"} {
			start := time.Now()
			cut(strings.Repeat(unit, 1<<20/len(unit)), pre.split)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: 1 MiB of %q: took %v", name, unit, took)
			}
		}
	}
}
