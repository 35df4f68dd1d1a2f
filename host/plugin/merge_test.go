package plugin

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestSplice(t *testing.T) {
	for _, c := range []struct{ doc, members, want string }{
		{`{"id":1}`, ``, `{"id":1}`},
		{`{"id":1}`, `"a":2`, `{"id":1,"a":2}`},
		{`{"id":1}`, `"a":{"b":[]},"c":3`, `{"id":1,"a":{"b":[]},"c":3}`},
		{`{}`, `"a":2`, `{"a":2}`},
		{"{ \n}\n", `"a":2`, "{ \n\"a\":2}\n"},
		{"{\"id\":{} } \n\n", `"a":2`, "{\"id\":{} ,\"a\":2} \n\n"},
		{`{"id":"}"}`, `"a":2`, `{"id":"}","a":2}`},
	} {
		for _, spare := range []int{0, 1, 64} {
			doc := append(make([]byte, 0, len(c.doc)+spare), c.doc...)
			got := Splice(doc, []byte(c.members))
			if string(got) != c.want || !json.Valid(got) {
				t.Errorf("%s and %s with %d bytes to spare: got %s, want %s", c.doc, c.members, spare, got, c.want)
			}
		}
	}
}

func TestSpliceRefusesOtherDocuments(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a document without a brace was accepted")
		}
	}()
	Splice([]byte("[1]"), []byte(`"a":1`))
}

func TestSpliceInPlace(t *testing.T) {
	doc := append(make([]byte, 0, 64), `{"id":1}`...)
	members := []byte(`"a":2`)
	if n := testing.AllocsPerRun(100, func() { Splice(append(doc[:0], `{"id":1}`...), members) }); n != 0 {
		t.Errorf("%v allocations for a document with room", n)
	}
}

// FuzzCutMember holds cutMember against encoding/json's view of the members.
func FuzzCutMember(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"a":[2,"}"]},"c":"x"}`), "b")
	f.Add([]byte(`{"a":1}`), "a")
	f.Add([]byte(`{ "a" : 1 , "b" : 2 }`), "b")
	f.Fuzz(func(t *testing.T, doc []byte, name string) {
		members, valid := membersOf(doc)
		if !valid || bytes.ContainsRune(doc, '\\') {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		delete(want, name)
		cut := Splice([]byte("{}"), cutMember(members, []byte(name)))
		var got map[string]json.RawMessage
		if err := json.Unmarshal(cut, &got); err != nil {
			t.Fatalf("%s without %q is %s: %v", doc, name, cut, err)
		}
		if len(got) != len(want) {
			t.Errorf("%s without %q: got %s", doc, name, cut)
		}
		for key, value := range want {
			if !bytes.Equal(bytes.TrimSpace(got[key]), bytes.TrimSpace(value)) {
				t.Errorf("%s without %q: member %q is %s, want %s", doc, name, key, got[key], value)
			}
		}
	})
}

// membersOf gives what stands between the braces of a valid object.
func membersOf(doc []byte) ([]byte, bool) {
	s := jsonScanner{doc: doc}
	object := s.peek() == '{'
	value := s.value(2)
	if s.end() != nil || !object {
		return nil, false
	}
	return bytes.Clone(bytes.TrimSpace(value[1 : len(value)-1])), true
}
