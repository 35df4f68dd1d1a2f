package plugin

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

var testRules = &resultRules{
	grants:   &Grants{Fields: []string{"metrics", "x_*"}},
	reserved: newReservedNames(&Options{Reserved: []string{"id", "x_reserved"}}),
}

// FuzzResult holds the validator against a slow reading of the rules by
// encoding/json.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"fields":{"metrics":{"a":1.5,"b":[null,true,"\u00e9"]},"x_a":{}},"carry":"c"}`,
		`{"fields":{"metrics":null,"metrics":1}}`, `{"fields":{"id":1}}`, `{"fields":{"x_reserved":1}}`,
		`{"fields":{"x_a":1e308,"x_b":-1e309}}`, `{"fields":{"x_\u0061":1}}`, ` { } `, `[]`, `{"fields":{}} x`,
		`{"usage":{}}`, "{\"fields\":{\"x_\xff\":1}}", `{"fields":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		prefix := []byte(`"a":1`)
		if bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) {
			return // half a surrogate is refused here and replaced by encoding/json
		}
		into := result{members: bytes.Clone(prefix)}
		err := testRules.read(HookShape, text, nil, &into)
		members := into.members
		wanted := slowRead(text)
		if (err == nil) != (wanted != nil) {
			t.Fatalf("%q: got error %v, the slow reading gives %v", text, err, wanted)
		}
		if err != nil {
			if !bytes.Equal(members, prefix) {
				t.Fatalf("%q: got %s beside the error %v", text, members, err)
			}
			return
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(Splice([]byte("{}"), members), &got); err != nil {
			t.Fatalf("%q: members %s: %v", text, members, err)
		}
		if len(got) != len(wanted)+1 {
			t.Fatalf("%q: got %s, want %d members and a", text, members, len(wanted))
		}
		for name, value := range wanted {
			if !bytes.Equal(got[name], value) {
				t.Fatalf("%q: member %q is %s, want %s", text, name, got[name], value)
			}
		}
	})
}

// slowRead gives the fields of a result, or nil if the rules refuse it. It
// walks the tokens of encoding/json and says each rule in turn.
func slowRead(result []byte) map[string][]byte {
	if len(result) > maxResultBytes || !utf8.Valid(result) || !json.Valid(result) {
		return nil
	}
	r := &slowReader{text: result, decoder: json.NewDecoder(bytes.NewReader(result)), sound: true}
	r.decoder.UseNumber()
	fields := map[string][]byte{}
	document, isObject := r.value(1)
	if !isObject {
		return nil
	}
	for name, member := range document {
		switch name {
		case `"carry"`:
			if member.raw[0] != '"' || len(member.raw) > maxCarryBytes+2 {
				return nil
			}
		case `"fields"`:
			if member.members == nil {
				return nil
			}
			for quoted, field := range member.members {
				name := strings.Trim(quoted, `"`)
				if strings.Contains(name, `\`) || name != "metrics" && !strings.HasPrefix(name, "x_") || name == "x_reserved" {
					return nil
				}
				fields[name] = field.raw
			}
		default:
			return nil
		}
	}
	if !r.sound {
		return nil
	}
	return fields
}

type slowReader struct {
	text    []byte
	decoder *json.Decoder
	sound   bool
}

type slowMember struct {
	raw     []byte
	members map[string]slowMember // of an object, by the key as it is written
}

// value reads one value at a nesting depth; containers count from 1.
func (r *slowReader) value(depth int) (members map[string]slowMember, isObject bool) {
	token, err := r.decoder.Token()
	r.sound = r.sound && err == nil
	switch token := token.(type) {
	case json.Number:
		f, err := token.Float64()
		r.sound = r.sound && err == nil && !math.IsInf(f, 0)
	case json.Delim:
		r.sound = r.sound && depth <= maxResultDepth
		members = map[string]slowMember{}
		decoded := map[string]bool{}
		for r.decoder.More() {
			name := ""
			if token == '{' {
				before := r.decoder.InputOffset()
				key, err := r.decoder.Token()
				r.sound = r.sound && err == nil && !decoded[key.(string)]
				decoded[key.(string)] = true
				name = string(bytes.TrimLeft(r.text[before:r.decoder.InputOffset()], ", \t\r\n"))
			}
			before := r.decoder.InputOffset()
			inner, isObject := r.value(depth + 1)
			raw := bytes.TrimLeft(r.text[before:r.decoder.InputOffset()], ":, \t\r\n")
			if !isObject {
				inner = nil
			}
			if token == '{' {
				members[name] = slowMember{raw, inner}
			}
		}
		_, err := r.decoder.Token()
		r.sound = r.sound && err == nil
		return members, token == '{'
	}
	return nil, false
}

func TestFieldPatterns(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		overlap bool
	}{
		{"metrics", "metrics", true},
		{"metrics", "metric", false},
		{"x_*", "x_a", true},
		{"x_a", "x_*", true},
		{"x_*", "x_a*", true},
		{"x_a*", "x_*", true},
		{"x_a*", "x_b*", false},
		{"y", "x_*", false},
		{"x_", "x_*", true},
	} {
		if got := overlap(c.a, c.b); got != c.overlap {
			t.Errorf("%s and %s: got %v, want %v", c.a, c.b, got, c.overlap)
		}
	}
}

func TestResultAllocatesNothing(t *testing.T) {
	text := []byte(`{"fields":{"metrics":{"time_to_first_token_ms":42.0,"mean_itl_ms":null,"list":[1,2e5,"ab"]}}}`)
	into := result{members: make([]byte, 0, 512)}
	if n := testing.AllocsPerRun(1000, func() {
		into.begin()
		if err := testRules.read(HookShape, text, nil, &into); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a result that fits", n)
	}
}

func BenchmarkResult(b *testing.B) {
	text := []byte(`{"fields":{"metrics":{"time_to_first_token_ms":42.011111,"generation_time_ms":1500.226545,"queue_time_ms":2.512345,"mean_itl_ms":11.812807,"tokens_per_second":82.992901}}}`)
	var into result
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		into.begin()
		if err := testRules.read(HookShape, text, nil, &into); err != nil {
			b.Fatal(err)
		}
	}
}
