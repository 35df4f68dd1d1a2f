package wasmeter

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*JSON)
		want  string
	}{
		{"nothing", func(w *JSON) {}, ``},
		{"one of each", func(w *JSON) {
			w.Str("s", "x").Int("i", math.MinInt64).Uint("u", math.MaxUint64).Bool("b", true).Null("n").Raw("r", `{"a":[]}`)
		}, `"s":"x","i":-9223372036854775808,"u":18446744073709551615,"b":true,"n":null,"r":{"a":[]}`},
		{"nested", func(w *JSON) {
			w.Object("a").Object("b").Int("c", 1).End().Int("d", 2).End().Int("e", 3)
		}, `"a":{"b":{"c":1},"d":2},"e":3`},
		{"empty containers", func(w *JSON) { w.Object("a").End().List("b").End() }, `"a":{},"b":[]`},
		{"list", func(w *JSON) {
			w.List("a").Int("", 1).Str("ignored", "x").Object("").Int("k", 2).End().List("").End().End()
		}, `"a":[1,"x",{"k":2},[]]`},
		{"left open", func(w *JSON) { w.Object("a").List("b").Int("", 1) }, `"a":{"b":[1]}`},
		{"closed too often", func(w *JSON) { w.End().Object("a").End().End().Int("b", 1) }, `"a":{},"b":1`},
		{"escapes", func(w *JSON) { w.Str("\"\\\n", "\x00\x1f\t\r\n\"\\/ü\u2028€😀\x7f") }, `"\"\\\n":"\u0000\u001f\t\r\n\"\\/ü` + "\u2028€😀\x7f" + `"`},
		{"invalid UTF-8", func(w *JSON) { w.Str("k", "a\xffb\xe2\x82c\xed\xa0\x80") }, `"k":"a` + "\uFFFDb\uFFFD\uFFFDc\uFFFD\uFFFD\uFFFD" + `"`},
	} {
		var w JSON
		c.write(&w)
		got := string(w.AppendTo([]byte("{")))
		if got != "{"+c.want || !json.Valid([]byte(got+"}")) {
			t.Errorf("%s: got %s, want {%s", c.name, got, c.want)
		}
	}
}

func FuzzStr(f *testing.F) {
	f.Add("key", "plain")
	f.Add("\"\\\x00", "\xff\xed\xa0\x80€\u2028")
	f.Fuzz(func(t *testing.T, key, value string) {
		var w JSON
		text := append((&w).Str(key, value).AppendTo([]byte("{")), '}')
		var got map[string]string
		if err := json.Unmarshal(text, &got); err != nil || !utf8.Valid(text) {
			t.Fatalf("%q: %q gives %s: %v", key, value, text, err)
		}
		// Invalid bytes are U+FFFD each, as in a conversion to runes.
		want := string([]rune(value))
		if name := string([]rune(key)); len(got) != 1 || got[name] != want {
			t.Errorf("%q: %q is read back as %q", key, value, got)
		}
	})
}

func TestMillis(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0.0", 1: "0.000001", 10: "0.00001", 999_999: "0.999999", 1_000_000: "1.0", 5_000_000: "5.0",
		1_500_000: "1.5", 42_011_110: "42.01111", 100_000: "0.1", math.MaxUint64: "18446744073709.551615",
	} {
		var w JSON
		if got := string(w.Millis("k", ns).AppendTo(nil)); got != `"k":`+want {
			t.Errorf("%d ns: got %s, want %s", ns, got, want)
		}
	}
}

// FuzzRatio holds the rounding against arithmetic on big rationals.
func FuzzRatio(f *testing.F) {
	for _, seed := range [][2]uint64{
		{2, 3}, {1, 2_000_000}, {1, 2_000_001}, {1_999_999, 2_000_000}, {0, 1}, {5, 1}, {1, 0},
		{math.MaxUint64, 1}, {math.MaxUint64, math.MaxUint64}, {math.MaxUint64 - 1, math.MaxUint64}, {10_000_000_000, 1_542_250_000},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, num, den uint64) {
		var w JSON
		got := string(w.Ratio("k", num, den).AppendTo(nil))
		want := "null"
		if den != 0 {
			exact := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
			want = strings.TrimRight(exact.FloatString(6), "0") // rounds half away from zero
			if strings.HasSuffix(want, ".") {
				want += "0"
			}
		}
		if got != `"k":`+want {
			t.Errorf("%d / %d: got %s, want %s", num, den, got, want)
		}
	})
}

func TestWriterAllocatesNothing(t *testing.T) {
	shape := func(r Request, out *Answer) {
		out.Fields.Object("billing").Int("cost_micro_usd", 12*int64(r.PromptTokens())).Millis("t", r.QueuedNS()).Ratio("r", 2, 3).Str("tenant", r.Tenant())
	}
	frame := make([]byte, 256)
	var out Answer
	answer(shape, frame, &out)
	if n := testing.AllocsPerRun(100, func() { answer(shape, frame, &out) }); n != 0 {
		t.Errorf("%v allocations in a second call; a guest would collect garbage for them", n)
	}
}
