package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRequestResult holds what a request hook may answer against a slow
// reading of the rules with encoding/json.
func FuzzRequestResult(f *testing.F) {
	for _, seed := range []string{
		`{"deny":{"status":429,"code":"quota","message":"m","retry_after":2},"headers":{"x-a":"1"},"carry":"c"}`,
		`{"deny":{"status":399,"code":"quota","message":"m"}}`, `{"deny":{"status":429.5,"code":"a","message":"m"}}`, `{"headers":{"x-a":"\n"}}`,
		`{"headers":{"x-b":"1"}}`, `{"deny":null}`, `{"deny":{"status":4e2,"code":"a","message":"m"}}`, `{"deny":{"status":400,"code":"a","message":""}}`,
		`{"fields":{}}`, `{"carry":"\u0000\\"}`, `{"deny":{"status":400,"code":"a","message":"m","retry_after":-0}}`, `{"deny":{"code":"","message":"m","status":400}}`,
	} {
		f.Add([]byte(seed))
	}
	rules := &resultRules{grants: &Grants{Deny: true, Headers: []string{"x-a*"}}, reserved: newReservedNames(&Options{ReservedHeaders: []string{"x-ab"}})}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) {
			return // half a surrogate is refused here and replaced by encoding/json
		}
		var into result
		err := rules.read(HookRequest, text, nil, &into)
		want, sound := slowRequest(text)
		if (err == nil) != sound {
			t.Fatalf("%q: got error %v, the slow reading accepts it: %v", text, err, sound)
		}
		if err == nil {
			got := fmt.Sprint(into.deny, into.headers, into.carry)
			if got != want {
				t.Fatalf("%q: got %s, want %s", text, got, want)
			}
		} else if into.deny != nil || len(into.headers) > 0 || into.carry != "" {
			t.Fatalf("%q: got %+v beside the error", text, into)
		}
	})
}

// slowRequest reads a result of the hook request; sound is false if the rules
// refuse it.
func slowRequest(text []byte) (read string, sound bool) {
	if len(text) > maxResultBytes || !utf8.Valid(text) || !json.Valid(text) {
		return "", false
	}
	r := &slowReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), sound: true}
	r.decoder.UseNumber()
	document, isObject := r.value(1)
	if !isObject || !r.sound {
		return "", false
	}
	str := func(m slowMember, most int) (s string, ok bool) {
		return s, m.raw[0] == '"' && len(m.raw) <= most+2 && json.Unmarshal(m.raw, &s) == nil
	}
	var deny *Deny
	var headers []Header
	carry := ""
	ok := true
	for name, member := range document {
		switch name {
		case `"carry"`:
			carry, sound = str(member, maxCarryBytes)
			ok = ok && sound
		case `"headers"`:
			ok = ok && member.members != nil && len(member.members) <= maxHeaders
			for quoted, header := range member.members {
				name := strings.Trim(quoted, `"`)
				value, sound := str(header, maxHeaderBytes)
				ok = ok && sound && strings.HasPrefix(name, "x-a") && name != "x-ab" && !strings.Contains(name, `\`) &&
					strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.IndexFunc(value, func(c rune) bool { return c < 32 || c > 126 }) < 0
				headers = append(headers, Header{name, value})
			}
		case `"deny"`:
			if member.members == nil {
				return "", false
			}
			deny = &Deny{}
			number := func(m slowMember, from, to int) (n int) {
				ok = ok && json.Unmarshal(m.raw, &n) == nil && m.raw[0] != 'n' && from <= n && n <= to
				return n
			}
			for name, member := range member.members {
				sound := true
				switch name {
				case `"status"`:
					deny.Status = number(member, 400, 599)
				case `"retry_after"`:
					deny.RetryAfter = number(member, 0, 86_400)
				case `"code"`:
					deny.Code, sound = str(member, 64)
					sound = sound && strings.Trim(deny.Code, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
				case `"message"`:
					deny.Message, sound = str(member, 1024)
				default:
					sound = false
				}
				ok = ok && sound
			}
			ok = ok && deny.Status != 0 && deny.Code != "" && deny.Message != ""
		default:
			return "", false
		}
	}
	// A map has lost the order of the headers.
	order := func(h Header) int { return bytes.Index(text, []byte(`"`+h.Name+`"`)) }
	slices.SortFunc(headers, func(a, b Header) int { return order(a) - order(b) })
	return fmt.Sprint(deny, headers, carry), ok
}

// FuzzReplacement: whatever document a plugin puts in the place of the
// answer's, encoding/json reads the same usage in it and no more members.
func FuzzReplacement(f *testing.F) {
	const answer = `{"id":"a","choices":[{"text":"x"}],"usage":{"prompt_tokens":5,"total_tokens":6}}`
	f.Add([]byte(answer), []byte(`{"document":`+answer+`}`))
	f.Add([]byte(answer), []byte(`{"document":{"id":"b","usage":{"prompt_tokens":5,"total_tokens":6}}}`))
	f.Add([]byte(answer), []byte(`{"document":{"usage":{"prompt_tokens":5,"total_tokens":6},"us\u0061ge":{}}}`))
	f.Add([]byte(`{"response":`+answer+`}`), []byte(`{"document":{"response":`+answer+`}}`))
	f.Add([]byte(`{}`), []byte(`{"document":{"usage":{}}}`))
	rules := &resultRules{grants: &Grants{Rewrite: true}, reserved: newReservedNames(&Options{})}
	f.Fuzz(func(t *testing.T, original, text []byte) {
		var was map[string]json.RawMessage
		if json.Unmarshal(original, &was) != nil || !isObject(original) {
			return // the server's own documents are sound
		}
		var into result
		if rules.read(HookChunk, text, original, &into) != nil || into.document == nil {
			return
		}
		var is map[string]json.RawMessage
		if err := json.Unmarshal(into.document, &is); err != nil {
			t.Fatalf("%q was accepted: %v", into.document, err)
		}
		if len(into.document) > len(original)+maxDocumentMore {
			t.Fatalf("a document of %d bytes in the place of %d was accepted", len(into.document), len(original))
		}
		for name := range maps.Keys(is) {
			if _, known := was[name]; !known {
				t.Fatalf("%q has the member %q, which %q has not", into.document, name, original)
			}
		}
		for _, path := range [][]string{{"usage"}, {"response", "usage"}} {
			if got, want := at(is, path), at(was, path); !bytes.Equal(got, want) {
				t.Fatalf("%q has the usage %s, want %s", into.document, got, want)
			}
		}
	})
}

// at gives what stands at a path of names, nil if nothing does.
func at(document map[string]json.RawMessage, path []string) json.RawMessage {
	value := document[path[0]]
	if len(path) == 1 || value == nil {
		return value
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(value, &inner) != nil {
		return nil
	}
	return at(inner, path[1:])
}
