package engine

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

func TestStopStrings(t *testing.T) {
	for _, c := range []struct {
		name    string
		stops   []string
		include bool
		in      string // one byte a token
		want    string
		stop    string
	}{
		{name: "none", in: "hello", want: "hello"},
		{name: "whole", stops: []string{"lo"}, in: "hello world", want: "hel", stop: "lo"},
		{name: "included", stops: []string{"lo"}, include: true, in: "hello world", want: "hello", stop: "lo"},
		// vLLM issue 3574: no part of a stop string may leak.
		{name: "spread over tokens", stops: []string{"DEFGHIJ"}, in: "ABCDEFGHIJK", want: "ABC", stop: "DEFGHIJ"},
		{name: "begun and not ended", stops: []string{"DEFX"}, in: "ABCDEFGH", want: "ABCDEFGH"},
		{name: "held at the end", stops: []string{"HIJ"}, in: "ABCDEFGHI", want: "ABCDEFGHI"},
		{name: "overlapping itself", stops: []string{"aab"}, in: "aaab", want: "a", stop: "aab"},
		{name: "two, the first to end", stops: []string{"world", "lo"}, in: "hello world", want: "hel", stop: "lo"},
		{name: "two, ending together", stops: []string{"o", "llo"}, in: "hello", want: "he", stop: "llo"},
		{name: "begins the text", stops: []string{"he"}, in: "hello", want: "", stop: "he"},
		{name: "of several bytes a rune", stops: []string{"é!"}, in: "café! non", want: "caf", stop: "é!"},
		{name: "no rune of a split one", stops: []string{"x"}, in: "日本", want: "日本"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newText(&Request{Stop: c.stops, IncludeStop: c.include}, tokenizer.Bytes())
			var got []byte
			stop := ""
			for i := 0; i < len(c.in) && stop == ""; i++ {
				got, stop = x.push(got, int32(c.in[i]))
				if !strings.HasPrefix(c.want, string(got)) {
					t.Fatalf("after %q: text %q is not a beginning of %q", c.in[:i+1], got, c.want)
				}
			}
			if stop == "" {
				got = x.flush(got)
			}
			if string(got) != c.want || stop != c.stop {
				t.Errorf("%q with stops %q: got %q stopped by %q, want %q stopped by %q", c.in, c.stops, got, stop, c.want, c.stop)
			}
		})
	}
}

// FuzzStop compares with a search of the whole text: what has left at any time
// is a beginning of the answer, and at the end it is the answer.
func FuzzStop(f *testing.F) {
	f.Add("hello world", "lo", "wor")
	f.Add("aaaaab", "aab", "b")
	f.Add("日本語", "本", "x")
	f.Fuzz(func(t *testing.T, in, stop1, stop2 string) {
		if stop1 == "" || stop2 == "" {
			return
		}
		valid := strings.ToValidUTF8(in, "")
		// The slow way: after each byte, look at all text decoded so far.
		want, hit := valid, ""
	search:
		for end := range len(valid) + 1 {
			whole := strings.ToValidUTF8(valid[:end], "")
			at := -1
			for _, s := range []string{stop1, stop2} {
				if i := strings.Index(whole, s); i >= 0 && (at < 0 || i < at || i == at && len(s) > len(hit)) {
					at, hit = i, s
				}
			}
			if at >= 0 {
				want = whole[:at]
				break search
			}
		}
		x := newText(&Request{Stop: []string{stop1, stop2}}, tokenizer.Bytes())
		var got []byte
		stop := ""
		for i := 0; i < len(valid) && stop == ""; i++ {
			got, stop = x.push(got, int32(valid[i]))
			if !strings.HasPrefix(want, string(got)) {
				t.Fatalf("%q, stops %q %q: %q left, which does not begin %q", valid, stop1, stop2, got, want)
			}
		}
		if stop == "" {
			got = x.flush(got)
		}
		if string(got) != want || stop != hit {
			t.Fatalf("%q, stops %q %q: got %q by %q, want %q by %q", valid, stop1, stop2, got, stop, want, hit)
		}
	})
}
