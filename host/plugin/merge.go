package plugin

import "bytes"

// Splice inserts members, as Chain.Shape gives them, before the closing
// brace of the JSON object doc and returns the longer document. doc is
// extended in place when it has room. The caller guarantees that doc is an
// object whose own members are all in Options.Reserved, so no key can occur
// twice.
func Splice(doc, members []byte) []byte {
	if len(members) == 0 {
		return doc
	}
	brace := bytes.LastIndexByte(doc, '}')
	if brace < 1 {
		panic("plugin: splice into a document that is not a JSON object")
	}
	before := brace - 1
	for before > 0 && (doc[before] == ' ' || doc[before] == '\n' || doc[before] == '\t' || doc[before] == '\r') {
		before--
	}
	inserted := len(members)
	comma := doc[before] != '{'
	if comma {
		inserted++
	}
	size := len(doc)
	doc = append(doc, members...) // grows doc; the bytes are placed below
	if comma {
		doc = append(doc, ' ')
	}
	copy(doc[brace+inserted:], doc[brace:size])
	if comma {
		doc[brace] = ','
		brace++
	}
	copy(doc[brace:], members)
	return doc
}

// cutMember removes the member called name from members, a comma-separated
// list of valid members, in place.
func cutMember(members []byte, name []byte) []byte {
	s := jsonScanner{doc: members}
	var list jsonObject
	for from := 0; ; {
		key, more := s.next(&list)
		if !more {
			return members
		}
		s.value(3)
		to := s.at
		if !bytes.Equal(key, name) {
			from = to
			continue
		}
		if from == 0 && to < len(members) {
			to++ // the first member takes the comma behind it along
		}
		return append(members[:from], members[to:]...)
	}
}
