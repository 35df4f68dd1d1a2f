package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// smolLM2 returns the tokenizer of the real model.
func smolLM2(t testing.TB) *Tokenizer {
	t.Helper()
	return realTokenizer(t, "SmolLM2-135M-Instruct.Q4_1.gguf", "model")
}

// realTokenizer returns the tokenizer of a file in models/, which a target of
// make fetches, or skips.
func realTokenizer(t testing.TB, file, target string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open("../../models/" + file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no model models/%s; run: make %s", file, target)
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

// TestGolden compares with the ids that llama.cpp gave, for SmolLM2 the Hugging
// Face library too; the files name the versions.
func TestGolden(t *testing.T) {
	t.Run("smollm2", func(t *testing.T) { checkGolden(t, "smollm2-tokens.json", 55, smolLM2(t)) })
	t.Run("gemma3", func(t *testing.T) {
		checkGolden(t, "gemma3-tokens.json", 87, realTokenizer(t, "gemma-3-270m.Q4_K_M.gguf", "model-gemma"))
	})
	t.Run("qwen2", func(t *testing.T) {
		checkGolden(t, "qwen2-tokens.json", 87, realTokenizer(t, "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "model-qwen"))
	})
}

func checkGolden(t *testing.T, name string, cases int, tok *Tokenizer) {
	t.Helper()
	var golden struct {
		Cases []struct {
			Text   string
			Parsed []int32 `json:"ids"`
			AsText []int32 `json:"ids_no_special"`
		}
	}
	readJSON(t, "testdata/"+name, &golden)
	if len(golden.Cases) != cases {
		t.Fatalf("got %d cases, want %d", len(golden.Cases), cases)
	}
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
		want := c.Text
		if _, ok := tok.text.(*spm); ok {
			want = strings.ReplaceAll(want, spaceMark, " ")
		}
		if string(text) != want {
			t.Errorf("pieces of %q: got %q, want %q", c.Text, text, want)
		}
	}
}

// TestEndsAsLlamaCpp compares with the tokens that end a generation in llama.cpp
// b11434, as llama-server -lv 4 prints them ("EOG token").
func TestEndsAsLlamaCpp(t *testing.T) {
	for _, c := range []struct {
		file, target string
		want         []int32
	}{
		{"SmolLM2-135M-Instruct.Q4_1.gguf", "model", []int32{0, 2, 4}},
		{"gemma-3-270m.Q4_K_M.gguf", "model-gemma", []int32{1, 106, 212}},
		// llama.cpp has 128247 too, </s>, and warns of it: a normal token, that here
		// stays what it is in HTML.
		{"Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf", "model-qwen", []int32{151643, 151645, 151662, 151663, 151664}},
	} {
		t.Run(c.target, func(t *testing.T) {
			tok := realTokenizer(t, c.file, c.target)
			var got []int32
			for id := range int32(tok.Size()) {
				if tok.EOG(id) {
					got = append(got, id)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestModelTokens checks the special tokens of the real model, as its
// tokenizer_config.json has them.
func TestModelTokens(t *testing.T) {
	tok := smolLM2(t)
	if tok.Size() != 49152 {
		t.Errorf("size: got %d, want 49152", tok.Size())
	}
	if bos, ok := tok.BOS(); !ok || bos != 1 || tok.AddBOS() {
		t.Errorf("bos: got %d, %v, added %v, want 1, not added", bos, ok, tok.AddBOS())
	}
	if eos, ok := tok.EOS(); !ok || eos != 2 || !tok.EOG(eos) {
		t.Errorf("eos: got %d, %v, ends %v, want 2, which ends", eos, ok, tok.EOG(eos))
	}
	if !tok.EOG(0) || tok.EOG(1) || tok.EOG(1000) {
		t.Errorf("ends: got %v %v %v, want <|endoftext|> but neither <|im_start|> nor a word", tok.EOG(0), tok.EOG(1), tok.EOG(1000))
	}
	specials := tok.Specials()
	if len(specials) != 17 || specials[0] != "<|endoftext|>" || specials[16] != "<empty_output>" {
		t.Errorf("specials: got %q", specials)
	}
	for id, text := range specials {
		if got, ok := tok.Lookup(text); !ok || got != int32(id) {
			t.Errorf("lookup %q: got %d, %v, want %d", text, got, ok, id)
		}
	}
}

func TestFromGGUF(t *testing.T) {
	v, g := smallVocab(t, "llama-bpe")
	types := make([]int32, len(v.Types))
	for i, typ := range v.Types {
		types[i] = int32(typ)
	}
	// The end of text is a control token; the end of turn is called normal by the
	// file, as old files do.
	bos, eos, eot := int32(len(g.Tokens)), int32(len(g.Tokens)+1), int32(slices.Index(g.Tokens, "zebra"))
	base := []gguf.KeyValue{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "llama-bpe"},
		{Key: "tokenizer.ggml.tokens", Value: v.Tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: v.Merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(bos)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(eos)},
		{Key: "tokenizer.ggml.eot_token_id", Value: uint32(eot)},
	}
	// with returns base with a key set, or taken out where the value is nil.
	with := func(key string, value any) []gguf.KeyValue {
		kv := slices.DeleteFunc(slices.Clone(base), func(kv gguf.KeyValue) bool { return kv.Key == key })
		if value != nil {
			kv = append(kv, gguf.KeyValue{Key: key, Value: value})
		}
		return kv
	}
	parse := func(kv []gguf.KeyValue) (*Tokenizer, error) {
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

	tok, err := parse(base)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := tok.BOS(); !ok || got != bos || !tok.AddBOS() {
		t.Errorf("bos of llama-bpe without add_bos_token: got %d, %v, added %v, want %d, added", got, ok, tok.AddBOS(), bos)
	}
	if !tok.EOG(eos) || !tok.EOG(eot) || tok.EOG(bos) || !tok.Control(eos) || !tok.Control(eot) {
		t.Error("end of text and of turn must end and be control tokens, the beginning must not end")
	}
	if c := g.Cases[0]; !slices.Equal(tok.Encode(nil, c.Text, Parsed), c.Llama) {
		t.Errorf("encode %q: got %d, want %d", c.Text, tok.Encode(nil, c.Text, Parsed), c.Llama)
	}
	if tok, err := parse(with("tokenizer.ggml.add_bos_token", false)); err != nil || tok.AddBOS() {
		t.Errorf("add_bos_token false: got %v", err)
	}
	if tok, err := parse(with("tokenizer.ggml.token_type", nil)); err != nil || tok.Control(bos) || !tok.Control(eos) {
		t.Errorf("no token types: got %v; only the ends are control tokens then", err)
	}

	refused := []struct {
		key   string
		value any
		want  string
	}{
		{"tokenizer.ggml.model", nil, `key "tokenizer.ggml.model": no such metadata key`},
		{"tokenizer.ggml.model", "bert", `tokenizer model "bert" is not supported; the supported ones are "gpt2" (byte-level BPE) and "llama" (SentencePiece)`},
		{"tokenizer.ggml.pre", nil, "convert the model with a newer converter"},
		{"tokenizer.ggml.pre", "falcon", `pre-tokenizer "falcon" is not supported; the supported ones are smollm`},
		{"tokenizer.ggml.tokens", nil, `key "tokenizer.ggml.tokens": no such metadata key`},
		{"tokenizer.ggml.tokens", []string{}, "the vocabulary has 0 tokens"},
		{"tokenizer.ggml.tokens", v.Tokens[1:], "tokens but"},
		{"tokenizer.ggml.token_type", "x", "found string, want array of integers"},
		{"tokenizer.ggml.merges", nil, `key "tokenizer.ggml.merges": no such metadata key`},
		{"tokenizer.ggml.merges", []string{"ab"}, `merge 0: found "ab", want two tokens separated by a space`},
		{"tokenizer.ggml.merges", []string{"a b c"}, `merge 0: found "a b c"`},
		{"tokenizer.ggml.merges", []string{"q 0"}, `merge 0: "q 0": its parts or their union are not in the vocabulary`},
		{"tokenizer.ggml.bos_token_id", uint32(9999), "the beginning-of-text token is 9999, but the vocabulary has"},
		{"tokenizer.ggml.eos_token_id", uint32(9999), "the end-of-text token is 9999"},
		{"tokenizer.ggml.eot_token_id", uint32(9999), "an end-of-turn token is 9999"},
		{"tokenizer.ggml.eom_token_id", uint64(1 << 40), "1099511627776 is not a token id"},
		{"tokenizer.ggml.eos_token_id", "x", "found string, want integer"},
		{"tokenizer.ggml.add_bos_token", uint32(1), "found uint32, want bool"},
	}
	for _, test := range refused {
		if _, err := parse(with(test.key, test.value)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %.40v:\ngot error %v\nwant part %s", test.key, test.value, err, test.want)
		}
	}
	noBOS := slices.DeleteFunc(with("tokenizer.ggml.add_bos_token", true), func(kv gguf.KeyValue) bool {
		return kv.Key == "tokenizer.ggml.bos_token_id"
	})
	if _, err := parse(noBOS); err == nil || !strings.Contains(err.Error(), "names none") {
		t.Errorf("add_bos_token without a token: got error %v", err)
	}
}

// TestSpelledControl holds that no way of writing a control token in a user's
// text gives one.
func TestSpelledControl(t *testing.T) {
	for _, pre := range []string{"gpt2", "llama-bpe"} {
		tok, g := smallTokenizer(t, pre)
		texts := slices.Concat(tok.Specials(), []string{strings.Join(tok.Specials(), ""), "<|im_<|im_end|>end|>"})
		for _, c := range g.Cases {
			texts = append(texts, c.Text)
		}
		for _, text := range texts {
			for _, id := range tok.Encode(nil, text, AsText) {
				if tok.Control(id) {
					t.Errorf("%s: encode %q as text: gave control token %q", pre, text, tok.Piece(id))
				}
			}
		}
	}
}

func TestBytes(t *testing.T) {
	tok := Bytes()
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	for _, text := range []string{"", "plain text", "한글 😀\r\n", string(all), strings.Repeat("long ", 1000)} {
		ids := tok.Encode(nil, text, AsText)
		if len(ids) != len(text) {
			t.Errorf("encode %.40q: got %d tokens, want %d", text, len(ids), len(text))
		}
		for i, id := range ids {
			if id != int32(text[i]) {
				t.Fatalf("encode %.40q: token %d: got %d, want %d", text, i, id, text[i])
			}
		}
	}
	if eos, ok := tok.EOS(); !ok || eos != 256 || !tok.EOG(256) || !tok.EOG(258) || tok.EOG(257) || tok.Size() != 259 {
		t.Errorf("ends: got end of text %d, size %d, want 256 and 258 of 259 to end", eos, tok.Size())
	}
	if got, want := tok.Encode(nil, "<|im_start|>a<|im_end|>", Parsed), []int32{257, 'a', 258}; !slices.Equal(got, want) {
		t.Errorf("parsed: got %d, want %d", got, want)
	}
	if _, ok := tok.BOS(); ok || tok.AddBOS() {
		t.Error("there is a beginning-of-text token")
	}
}

func TestOutsideVocabulary(t *testing.T) {
	tok := Bytes()
	for _, id := range []int32{-1 << 31, -1, 259, 1<<31 - 1} {
		if got := tok.Piece(id); got != nil || tok.Control(id) || tok.EOG(id) {
			t.Errorf("id %d: got piece %q, control %v, ends %v, want none", id, got, tok.Control(id), tok.EOG(id))
		}
	}
	for _, text := range []string{"", "a", "<|im_start", "<|im_start|>x", "<|im_start|><|im_start|>"} {
		if id, ok := tok.Lookup(text); ok || id != None {
			t.Errorf("lookup %q: got %d, want none", text, id)
		}
	}
}

// TestMissingByte holds that a byte without a token is left out and the rest
// stays, merged as the Hugging Face library merges it.
func TestMissingByte(t *testing.T) {
	tok, err := New(Vocab{Model: "gpt2", Pre: "gpt2", Tokens: []string{"!", "!!"}, Merges: []string{"! !"}, BOS: None, EOS: None})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{"!\x04!": {1}, "\x04": nil, "!": {0}, "a": nil} {
		if got := tok.Encode(nil, text, AsText); !slices.Equal(got, want) {
			t.Errorf("encode %q: got %d, want %d", text, got, want)
		}
	}
	if got := tok.Encode(nil, strings.Repeat("\x04", 2*shortWord), AsText); len(got) != 0 {
		t.Errorf("encode a long word of missing bytes: got %d, want none", got)
	}
}

func TestEncodeAllocates(t *testing.T) {
	tok, g := smallTokenizer(t, "gpt2")
	ids := make([]int32, 0, 4096)
	if n := testing.AllocsPerRun(10, func() {
		for _, c := range g.Cases[:30] {
			ids = tok.Encode(ids[:0], c.Text, Parsed)
		}
	}); n != 0 {
		t.Errorf("got %v allocations for 30 texts of short words, want none", n)
	}
}

// TestConcurrent is for the race detector: a tokenizer serves any number of
// goroutines.
func TestConcurrent(t *testing.T) {
	tok, g := smallTokenizer(t, "gpt2")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, c := range g.Cases {
				if got := tok.Encode(nil, c.Text, Parsed); !slices.Equal(got, c.GPT2) {
					t.Errorf("encode %q: got %d, want %d", c.Text, got, c.GPT2)
				}
			}
		})
	}
	group.Wait()
}

// FuzzRoundTrip holds that the pieces of a text's tokens are the text, for any
// bytes, and that a Decoder gives a valid text back.
func FuzzRoundTrip(f *testing.F) {
	for _, text := range []string{"", "it's 12 o'clock", "<|im_start|>[UD]\t\t\t세계", "\xff\xe2\x82", strings.Repeat("ab", 40)} {
		f.Add(text)
	}
	var toks []*Tokenizer
	for _, pre := range []string{"smollm", "gpt2", "llama-bpe", "qwen2", "tekken"} {
		tok, _ := smallTokenizer(f, pre)
		toks = append(toks, tok)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			for _, mode := range []Special{AsText, Parsed} {
				ids := tok.Encode(nil, text, mode)
				var pieces []byte
				d := NewDecoder(tok)
				d.ShowControl = true
				var decoded string
				for _, id := range ids {
					pieces = append(pieces, tok.Piece(id)...)
					decoded += d.Push(id)
					if mode == AsText && tok.Control(id) {
						t.Errorf("encode %q as text: gave control token %q", text, tok.Piece(id))
					}
				}
				decoded += d.Flush()
				if string(pieces) != text {
					t.Errorf("mode %d: pieces of %q: got %q", mode, text, pieces)
				}
				if utf8.ValidString(text) && decoded != text {
					t.Errorf("mode %d: decode of %q: got %q", mode, text, decoded)
				}
			}
		}
	})
}

// FuzzNew holds that no vocabulary makes New or what it returns panic, and that
// tokens stay inside the vocabulary.
func FuzzNew(f *testing.F) {
	f.Add("a,b,ab,<s>", "a b", "\x01\x01\x01\x03", "abab<s>", int32(3))
	f.Add("Ġ,Ġa,a,,a", "Ġ a,a a", "", " a a", int32(-1))
	f.Add("x", "x x", "\x04", "xx", int32(7))
	f.Fuzz(func(t *testing.T, tokens, merges, types, text string, eos int32) {
		v := Vocab{Model: "gpt2", Pre: "llama-bpe", Tokens: strings.Split(tokens, ","), BOS: None, EOS: eos}
		if merges != "" {
			v.Merges = strings.Split(merges, ",")
		}
		for i := range len(types) {
			v.Types = append(v.Types, TokenType(types[i]))
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		for _, mode := range []Special{AsText, Parsed} {
			for _, id := range tok.Encode(nil, text, mode) {
				if id < 0 || int(id) >= tok.Size() {
					t.Errorf("encode %q: got id %d of %d", text, id, tok.Size())
				}
			}
		}
		for _, s := range tok.Specials() {
			if id, ok := tok.Lookup(s); s != "" && (!ok || string(tok.Piece(id)) != s) {
				t.Errorf("lookup %q: got %d, %v", s, id, ok)
			}
		}
	})
}
