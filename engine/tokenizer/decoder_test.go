package tokenizer

import (
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDecoder compares with Python's incremental decoder after each piece.
func TestDecoder(t *testing.T) {
	var golden struct {
		Cases []struct{ Pieces, Texts []string }
	}
	readJSON(t, "testdata/decoder.json", &golden)
	if len(golden.Cases) < 200 {
		t.Fatalf("got %d cases, want 200 and more", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		tok, ids := tokensOf(t, c.Pieces)
		d := NewDecoder(tok)
		for i, id := range ids {
			if got := d.Push(id); got != c.Texts[i] {
				t.Errorf("pieces %s: piece %d: got %q, want %q", c.Pieces, i, got, c.Texts[i])
			}
		}
		if got, want := d.Flush(), c.Texts[len(ids)]; got != want {
			t.Errorf("pieces %s: flush: got %q, want %q", c.Pieces, got, want)
		}
		if got := d.Flush(); got != "" {
			t.Errorf("pieces %s: second flush: got %q, want nothing", c.Pieces, got)
		}
	}
}

// tokensOf makes a vocabulary of just these pieces.
func tokensOf(t *testing.T, pieces []string) (*Tokenizer, []int32) {
	t.Helper()
	v := Vocab{Model: "gpt2", Pre: "gpt2", BOS: None, EOS: None}
	runes := byteRunes()
	var ids []int32
	for i, p := range pieces {
		b, err := hex.DecodeString(p)
		if err != nil {
			t.Fatal(err)
		}
		var text []rune
		for _, x := range b {
			text = append(text, runes[x])
		}
		v.Tokens = append(v.Tokens, string(text))
		ids = append(ids, int32(i))
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok, ids
}

func TestDecoderControl(t *testing.T) {
	tok := Bytes()
	end, _ := tok.EOS()
	tests := []struct {
		name string
		ids  []int32
		show bool
		want string
	}{
		{"hidden", []int32{'a', end, 'b'}, false, "ab"},
		{"shown", []int32{'a', end, 'b'}, true, "a<|endoftext|>b"},
		{"within a rune", []int32{0xc3, end, 0xa9}, false, "é"},
		{"shown within a rune", []int32{0xc3, end, 0xa9}, true, "\ufffd<|endoftext|>\ufffd"},
		{"outside the vocabulary", []int32{'a', -1, 1 << 30, 'b'}, false, "ab"},
	}
	for _, test := range tests {
		d := NewDecoder(tok)
		d.ShowControl = test.show
		var got string
		for _, id := range test.ids {
			got += d.Push(id)
		}
		if got += d.Flush(); got != test.want {
			t.Errorf("%s: decode %d: got %q, want %q", test.name, test.ids, got, test.want)
		}
	}
}

func TestDecoderAllocates(t *testing.T) {
	tok := Bytes()
	d := NewDecoder(tok)
	buf := make([]byte, 0, 256)
	text := "a한😀\xff\xf0\x9fé"
	if n := testing.AllocsPerRun(100, func() {
		buf = buf[:0]
		for i := range len(text) {
			buf = d.AppendPush(buf, int32(text[i]))
		}
		buf = d.AppendFlush(buf)
	}); n != 0 {
		t.Errorf("got %v allocations a text, want none", n)
	}
}

// FuzzDecoder holds, for any bytes cut into tokens anywhere, that each text is
// whole runes and that all texts together do not depend on where the cuts are.
// strings.ToValidUTF8 would give one U+FFFD for several; the reference is the
// decoder itself fed in one piece, which TestDecoder compares with Python.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("a한😀"), uint64(0b1011))
	f.Add([]byte("\xf0\x9f\x98A\xed\xa0\x80\xff\xe2\x82"), uint64(0xaaaa))
	runes := byteRunes()
	f.Fuzz(func(t *testing.T, data []byte, cuts uint64) {
		var tokens []string
		var whole, part strings.Builder
		for i, b := range data {
			whole.WriteRune(runes[b])
			part.WriteRune(runes[b])
			if cuts>>(i%64)&1 == 1 || i == len(data)-1 {
				tokens = append(tokens, part.String())
				part.Reset()
			}
		}
		tok, err := New(Vocab{Model: "gpt2", Pre: "gpt2", Tokens: append(tokens, whole.String()), BOS: None, EOS: None})
		if err != nil {
			t.Fatal(err)
		}
		once := NewDecoder(tok)
		want := once.Push(int32(len(tokens)))
		want += once.Flush()
		d := NewDecoder(tok)
		var got string
		for id := range tokens {
			text := d.Push(int32(id))
			if !utf8.ValidString(text) {
				t.Errorf("data %x: token %d gave %q, which is not whole runes", data, id, text)
			}
			got += text
		}
		if got += d.Flush(); got != want {
			t.Errorf("data %x in %d tokens: got %q, want %q", data, len(tokens), got, want)
		}
		if utf8.Valid(data) && got != string(data) {
			t.Errorf("valid text %q: got %q", data, got)
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	tok := Bytes()
	d := NewDecoder(tok)
	text := strings.Repeat("incremental text, 한글 😀\n", 100)
	buf := make([]byte, 0, 2*len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		buf = buf[:0]
		for i := range len(text) {
			buf = d.AppendPush(buf, int32(text[i]))
		}
	}
}
