package tokenizer

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

type spmGolden struct {
	Tokens []string
	Scores []float32
	Types  []TokenType
	Cases  []struct {
		Text            string
		Plain, Prefixed []int32
	}
}

// spmVocab is the vocabulary that the SentencePiece library trained for the
// tests.
func spmVocab(t testing.TB, prefix bool) (Vocab, spmGolden) {
	t.Helper()
	var g spmGolden
	readJSON(t, "testdata/spm.json", &g)
	return Vocab{Model: "llama", Tokens: g.Tokens, Scores: g.Scores, Types: g.Types, BOS: 1, EOS: 2, AddBOS: true, SpacePrefix: prefix}, g
}

func spmTokenizer(t testing.TB, prefix bool) (*Tokenizer, spmGolden) {
	t.Helper()
	v, g := spmVocab(t, prefix)
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok, g
}

// TestSPM compares with the SentencePiece library, which never takes a text for
// a control token. It puts no space after a user-defined token, unlike llama.cpp
// and the Hugging Face library, whose way this is: those texts are compared
// without the spaces alone.
func TestSPM(t *testing.T) {
	plain, g := spmTokenizer(t, false)
	prefixed, _ := spmTokenizer(t, true)
	if len(g.Cases) < 400 {
		t.Fatalf("got %d cases, want 400 and more", len(g.Cases))
	}
	for _, c := range g.Cases {
		if got := plain.Encode(nil, c.Text, AsText); !slices.Equal(got, c.Plain) {
			t.Errorf("encode %q:\ngot  %d\nwant %d", c.Text, got, c.Plain)
		}
		if slices.ContainsFunc(c.Plain, func(id int32) bool { return g.Types[id] == UserDefined }) {
			continue
		}
		if got := prefixed.Encode(nil, c.Text, AsText); !slices.Equal(got, c.Prefixed) {
			t.Errorf("encode %q with a space before it:\ngot  %d\nwant %d", c.Text, got, c.Prefixed)
		}
	}
}

// TestSpacePrefix checks where the space is put and where it is left out, by
// the rule of llama.cpp's llama_vocab::impl::tokenize.
func TestSpacePrefix(t *testing.T) {
	tok, _ := spmTokenizer(t, true)
	for _, c := range []struct {
		name   string
		before string // encoded before the text, into the same list
		text   string
		want   string // the tokens' pieces, between bars
	}{
		{"a text", "", "the cat", "| the| cat|"},
		{"no text", "", "", "|"},
		{"after a control token", "<s>", "the", "|<s>| the|"},
		{"control tokens within", "", "<s>the</s>", "|<s>| the|</s>|"},
		{"a user-defined token within", "", "[UD]the", "|[UD]| the|"},
		{"goes on after one", "[UD]", "the", "|[UD]| the|"},
		{"goes on", "the", " cat", "| the| cat|"},
		{"begins with a space", "", " the", "|  |the|"},
	} {
		ids := tok.Encode(tok.Encode(nil, c.before, Parsed), c.text, Parsed)
		got := "|"
		for _, id := range ids {
			got += string(tok.Piece(id)) + "|"
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		d := NewDecoder(tok)
		d.Whole, d.ShowControl = true, true
		var text string
		for _, id := range ids {
			text += d.Push(id)
		}
		if text += d.Flush(); text != c.before+c.text {
			t.Errorf("%s: decoded to %q, want %q", c.name, text, c.before+c.text)
		}
	}
	// The continuation of a text keeps its spaces.
	d := NewDecoder(tok)
	var text string
	for _, id := range tok.Encode(nil, "the cat", AsText) {
		text += d.Push(id)
	}
	if text != " the cat" {
		t.Errorf("a continuation is decoded to %q, want %q", text, " the cat")
	}
}

// mergeRunesSlowly is the definition: while any neighbours together are a token,
// the leftmost of those with the highest score become one.
func mergeRunesSlowly(v Vocab, s *spm, text string) []string {
	var parts []string
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		parts, text = append(parts, text[:n]), text[n:]
	}
	for {
		at, best := -1, float32(0)
		for i := range len(parts) - 1 {
			if id, ok := s.ids[parts[i]+parts[i+1]]; ok && (at < 0 || v.Scores[id] > best) {
				at, best = i, v.Scores[id]
			}
		}
		if at < 0 {
			return parts
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
}

// Scores that are equal, positive, zero or infinite are no different.
func TestSPMMergesByScore(t *testing.T) {
	v, g := spmVocab(t, false)
	for name, score := range map[string]func(i int) float32{
		"as trained": func(i int) float32 { return g.Scores[i] },
		"all equal":  func(int) float32 { return 0 },
		"two values": func(i int) float32 { return float32(i % 2) },
		"both signs": func(i int) float32 { return float32(i*7919%101) - 50 },
		"infinite too": func(i int) float32 {
			return []float32{float32(math.Inf(-1)), -1, 0, float32(math.Copysign(0, -1)), float32(math.Inf(1))}[i%5]
		},
	} {
		v.Scores = make([]float32, len(g.Scores))
		for i := range v.Scores {
			v.Scores[i] = score(i)
		}
		tok, err := New(v)
		if err != nil {
			t.Fatal(err)
		}
		s := tok.text.(*spm)
		for _, c := range g.Cases {
			text := strings.ReplaceAll(c.Text, spaceMark, " ")
			if text == "" {
				continue
			}
			var got []string
			parts := s.merge(text)
			for i := int32(0); i >= 0; i = parts[i].next {
				got = append(got, text[parts[i].start:parts[i].end])
			}
			if want := mergeRunesSlowly(v, s, text); !slices.Equal(got, want) {
				t.Errorf("scores %s: merge %q:\ngot  %q\nwant %q", name, text, got, want)
			}
		}
	}
}

func TestSPMRefusals(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		change func(v *Vocab)
		want   string
	}{
		{"no scores", func(v *Vocab) { v.Scores = nil }, "tokens but 0 scores"},
		{"a score too many", func(v *Vocab) { v.Scores = append(v.Scores, 0) }, "scores"},
		{"a score is not a number", func(v *Vocab) { v.Scores[300] = nan }, "the score of token 300 is not a number"},
		{"no token for a byte", func(v *Vocab) { v.Types[slices.Index(v.Tokens, "<0x41>")] = Unused }, "no token for byte 0x41"},
		{"a byte that is none", func(v *Vocab) { v.Tokens[slices.Index(v.Tokens, "<0x41>")] = "A" }, `is of type byte but spelled "A"`},
		{"types of another length", func(v *Vocab) { v.Types = v.Types[1:] }, "token types"},
	} {
		v, _ := spmVocab(t, true)
		c.change(&v)
		if _, err := New(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want part %s", c.name, err, c.want)
		}
	}
}

// TestSPMFromGGUF reads files with all keys and with those alone that old files
// have, where llama.cpp's defaults stand for the others.
func TestSPMFromGGUF(t *testing.T) {
	v, g := spmVocab(t, false)
	types := make([]int32, len(v.Types))
	for i, typ := range v.Types {
		types[i] = int32(typ)
	}
	old := []gguf.KeyValue{
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.tokens", Value: v.Tokens},
		{Key: "tokenizer.ggml.scores", Value: v.Scores},
		{Key: "tokenizer.ggml.token_type", Value: types},
	}
	parse := func(kv ...gguf.KeyValue) (*Tokenizer, error) {
		var b bytes.Buffer
		if err := gguf.Write(&b, kv, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return FromGGUF(f)
	}
	tok, err := parse(old...)
	if err != nil {
		t.Fatal(err)
	}
	bos, _ := tok.BOS()
	eos, _ := tok.EOS()
	if bos != 1 || eos != 2 || !tok.AddBOS() || !tok.EOG(2) || tok.EOG(1) {
		t.Errorf("an old file: text begins with %d (added %v) and ends with %d, want 1 (added) and 2", bos, tok.AddBOS(), eos)
	}
	c := g.Cases[0]
	if got := tok.Encode(nil, c.Text, AsText); !slices.Equal(got, c.Prefixed) {
		t.Errorf("an old file: encode %q: got %d, want %d", c.Text, got, c.Prefixed)
	}
	tok, err = parse(append(old,
		gguf.KeyValue{Key: "tokenizer.ggml.add_space_prefix", Value: false},
		gguf.KeyValue{Key: "tokenizer.ggml.add_bos_token", Value: false},
		gguf.KeyValue{Key: "tokenizer.ggml.bos_token_id", Value: uint32(3)})...)
	if err != nil {
		t.Fatal(err)
	}
	if bos, _ := tok.BOS(); bos != 3 || tok.AddBOS() {
		t.Errorf("a file with all keys: text begins with %d (added %v), want 3 (not added)", bos, tok.AddBOS())
	}
	if got := tok.Encode(nil, c.Text, AsText); !slices.Equal(got, c.Plain) {
		t.Errorf("a file with all keys: encode %q: got %d, want %d", c.Text, got, c.Plain)
	}
	if _, err := parse(old[0], old[1], old[3]); err == nil || !strings.Contains(err.Error(), `"tokenizer.ggml.scores": no such metadata key`) {
		t.Errorf("no scores: got error %v", err)
	}
}

// TestLongSPM encodes texts of a megabyte, of which none has words. It takes a
// second; in quadratic time it would not end before the test's deadline.
func TestLongSPM(t *testing.T) {
	tok, _ := spmTokenizer(t, true)
	for _, unit := range []string{"a", "ab", " ", "the cat", "한", "\xff", "[UD]["} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		n := 0
		for _, id := range tok.Encode(nil, text, AsText) {
			n += len(tok.Piece(id))
		}
		if n < len(text) || n > len(text)+1+len(text)/len(unit) {
			t.Errorf("1 MiB of %q: the tokens hold %d bytes, want %d and a space for each part", unit, n, len(text))
		}
	}
}

// FuzzSPM holds that the pieces of a text's tokens are the text, that no text is
// a control token, and that a Decoder of the whole gives the text back.
func FuzzSPM(f *testing.F) {
	for _, text := range []string{"", "the cat", " <s>[UD][UD][\n\n\n", "▁한\xff\xe2\x82", strings.Repeat("ab", 40)} {
		f.Add(text)
	}
	plain, _ := spmTokenizer(f, false)
	prefixed, _ := spmTokenizer(f, true)
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.ReplaceAll(text, spaceMark, " ")
		var pieces []byte
		for _, id := range plain.Encode(nil, text, AsText) {
			pieces = append(pieces, plain.Piece(id)...)
			if plain.Control(id) {
				t.Errorf("encode %q: gave control token %q", text, plain.Piece(id))
			}
		}
		if string(pieces) != want {
			t.Errorf("pieces of %q: got %q", text, pieces)
		}
		d := NewDecoder(prefixed)
		d.Whole = true
		var decoded string
		for _, id := range prefixed.Encode(nil, text, AsText) {
			decoded += d.Push(id)
		}
		decoded += d.Flush()
		if utf8.ValidString(text) && decoded != want {
			t.Errorf("decode of %q: got %q", text, decoded)
		}
	})
}

// FuzzNewSPM holds that no vocabulary makes New or what it returns panic.
func FuzzNewSPM(f *testing.F) {
	f.Add("a,b,ab,<s>", "\x01\x01\x01\x03", "abab<s>", float32(-1))
	f.Add("▁,▁▁,▁a", "\x01\x04\x05", "  a▁", float32(0))
	base, _ := spmVocab(f, true)
	f.Fuzz(func(t *testing.T, tokens, types, text string, score float32) {
		v := base
		v.Tokens, v.Types, v.Scores = slices.Clone(v.Tokens), slices.Clone(v.Types), slices.Clone(v.Scores)
		for i, token := range strings.Split(tokens, ",") {
			typ := Normal
			if i < len(types) {
				typ = TokenType(types[i])
			}
			v.Tokens, v.Types, v.Scores = append(v.Tokens, token), append(v.Types, typ), append(v.Scores, score*float32(i))
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, mode := range []Special{AsText, Parsed} {
			for _, id := range tok.Encode(nil, text, mode) {
				if id < 0 || int(id) >= tok.Size() || mode == AsText && tok.Control(id) {
					t.Errorf("encode %q, mode %d: got id %d of %d", text, mode, id, tok.Size())
				}
			}
		}
	})
}
