package tokenizer

// A matcher finds the spellings of special tokens in a text: the leftmost, and
// of those that begin at the same byte the longest. It is a trie over bytes, so
// a search costs at most the text's length times the longest spelling's.
type matcher struct {
	first [256]bool          // bytes with which a spelling begins
	next  map[trieEdge]int32 // node 0 is the root
	token []int32            // by node: the token spelled by the way to it, or None
}

type trieEdge struct {
	node int32
	b    byte
}

func newMatcher() *matcher {
	return &matcher{next: make(map[trieEdge]int32), token: []int32{None}}
}

// add takes in a spelling. Of two tokens with the same spelling the first
// counts; an empty spelling is never found.
func (m *matcher) add(text string, id int32) {
	if text == "" {
		return
	}
	m.first[text[0]] = true
	node := int32(0)
	for i := range len(text) {
		edge := trieEdge{node, text[i]}
		to, ok := m.next[edge]
		if !ok {
			to = int32(len(m.token))
			m.next[edge] = to
			m.token = append(m.token, None)
		}
		node = to
	}
	if m.token[node] == None {
		m.token[node] = id
	}
}

// find returns the first special token and its place in text; without one, id
// is None and start and end are the text's end.
func (m *matcher) find(text string) (start, end int, id int32) {
	if len(m.token) == 1 {
		return len(text), len(text), None
	}
	for i := range len(text) {
		if !m.first[text[i]] {
			continue
		}
		if n, id := m.longest(text[i:]); id != None {
			return i, i + n, id
		}
	}
	return len(text), len(text), None
}

// longest returns the longest special token with which text begins.
func (m *matcher) longest(text string) (n int, id int32) {
	id = None
	node := int32(0)
	for i := range len(text) {
		to, ok := m.next[trieEdge{node, text[i]}]
		if !ok {
			break
		}
		node = to
		if m.token[node] != None {
			n, id = i+1, m.token[node]
		}
	}
	return n, id
}
