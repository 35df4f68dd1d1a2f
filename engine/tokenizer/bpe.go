package tokenizer

import (
	"fmt"
	"strings"
)

// shortWord is the number of symbols up to which a word is merged by scanning
// for its best pair, which needs no memory and is fastest for the words of
// real text. Longer ones take a heap, so that a hostile word of a megabyte
// costs n log n and not n squared.
const shortWord = 48

// A bpe cuts a text into words and merges the bytes of each into tokens.
type bpe struct {
	split   splitter
	bytes   [256]int32       // token of a single byte, None without one
	words   map[string]int32 // bytes → token, of those that merges may make
	pairs   *pairTable       // what two neighbours become
	whole   []bool           // by id: a word of just its bytes is this token
	longest int              // length in bytes of the longest token in words
}

func newBPETokenizer(v Vocab) (*Tokenizer, error) {
	pre, err := preTokenizer(v.Pre)
	if err != nil {
		return nil, err
	}
	unspell := newUnspeller()
	t, err := newTokenizer(v, func(dst []byte, text string, _ TokenType) []byte { return unspell.appendBytes(dst, text) })
	if err != nil {
		return nil, err
	}
	b, err := newBPE(t, v, unspell, pre.split)
	if err != nil {
		return nil, err
	}
	if pre.wholeWords {
		b.trustAll()
	} else {
		b.trustReachable()
	}
	t.text = b
	return t, nil
}

func newBPE(t *Tokenizer, v Vocab, unspell *unspeller, split splitter) (*bpe, error) {
	b := &bpe{
		split: split,
		words: make(map[string]int32, len(v.Tokens)),
		pairs: newPairTable(len(v.Merges)),
		whole: make([]bool, len(v.Tokens)),
	}
	all := string(t.pieces)
	for i := range v.Tokens {
		if t.control[i] || v.typeOf(i) == Unused {
			continue
		}
		text := all[t.offsets[i]:t.offsets[i+1]]
		if _, ok := b.words[text]; !ok && text != "" {
			b.words[text] = int32(i)
			b.longest = max(b.longest, len(text))
		}
	}
	for i := range b.bytes {
		b.bytes[i] = None
		if id, ok := b.words[string([]byte{byte(i)})]; ok {
			b.bytes[i] = id
		}
	}
	var buf []byte
	for rank, text := range v.Merges {
		left, right, ok := strings.Cut(text, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d: found %.80q, want two tokens separated by a space", rank, text)
		}
		buf = unspell.appendBytes(buf[:0], left)
		middle := len(buf)
		buf = unspell.appendBytes(buf, right)
		l, r, token := b.id(buf[:middle]), b.id(buf[middle:]), b.id(buf)
		if l == None || r == None || token == None {
			return nil, fmt.Errorf("merge %d: %.80q: its parts or their union are not in the vocabulary", rank, text)
		}
		b.pairs.add(l, r, merge{int32(rank), token})
	}
	return b, nil
}

func (b *bpe) id(text []byte) int32 {
	if id, ok := b.words[string(text)]; ok {
		return id
	}
	return None
}

// trustAll makes every word that is a token that token.
func (b *bpe) trustAll() {
	for _, id := range b.words {
		b.whole[id] = true
	}
}

// trustReachable finds the tokens that the merges make of their own bytes. Most
// words of a text are such tokens and need no merging then. The rest, those
// that the merge list can't reach, must not be found by their bytes.
func (b *bpe) trustReachable() {
	var ids []int32
	for text, id := range b.words {
		ids = b.merge(ids[:0], text)
		b.whole[id] = len(ids) == 1 && ids[0] == id
	}
}

// appendText implements textEncoder.
func (b *bpe) appendText(dst []int32, text string, _ bool) []int32 {
	for len(text) > 0 {
		n := b.split(text)
		dst = b.appendWord(dst, text[:n])
		text = text[n:]
	}
	return dst
}

// appendWord appends the tokens of one word.
func (b *bpe) appendWord(dst []int32, word string) []int32 {
	if len(word) <= b.longest {
		if id, ok := b.words[word]; ok && b.whole[id] {
			return append(dst, id)
		}
	}
	return b.merge(dst, word)
}

// merge appends the tokens that the merge list makes of a word's bytes.
func (b *bpe) merge(dst []int32, word string) []int32 {
	if len(word) > shortWord {
		return b.mergeLong(dst, word)
	}
	var idBuf, rankBuf [shortWord]int32
	ids := idBuf[:0]
	for i := range len(word) {
		if id := b.bytes[word[i]]; id != None {
			ids = append(ids, id)
		}
	}
	// ranks[i] is the rank of the pair ids[i], ids[i+1], noRank if it has none.
	ranks := rankBuf[:len(ids)]
	for i := range ranks {
		ranks[i] = b.rank(ids, i)
	}
	for {
		best, at := int32(noRank), 0
		for i, r := range ranks {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			return append(dst, ids...)
		}
		ids[at] = b.pairs.find(ids[at], ids[at+1]).token
		ids = append(ids[:at+1], ids[at+2:]...)
		ranks = append(ranks[:at+1], ranks[at+2:]...)
		ranks[at] = b.rank(ids, at)
		if at > 0 {
			ranks[at-1] = b.rank(ids, at-1)
		}
	}
}

func (b *bpe) rank(ids []int32, i int) int32 {
	if i+1 >= len(ids) {
		return noRank
	}
	return b.pairs.find(ids[i], ids[i+1]).rank
}

// A symbol is a token of a long word while it is merged; symbols form a list.
type symbol struct {
	id         int32 // None once merged into its left neighbour
	prev, next int32 // -1 at the ends
}

// mergeLong is merge with a heap of candidate pairs. An entry is rank<<32 | at,
// so the smallest is the leftmost of the best rank. Entries whose pair has
// changed since are skipped: the pair's rank tells.
func (b *bpe) mergeLong(dst []int32, word string) []int32 {
	symbols := make([]symbol, 0, len(word))
	for i := range len(word) {
		if id := b.bytes[word[i]]; id != None {
			n := int32(len(symbols))
			symbols = append(symbols, symbol{id, n - 1, n + 1})
		}
	}
	if len(symbols) == 0 {
		return dst
	}
	symbols[len(symbols)-1].next = -1
	var queue minHeap
	offer := func(at int32) {
		if at < 0 || symbols[at].next < 0 {
			return
		}
		if m := b.pairs.find(symbols[at].id, symbols[symbols[at].next].id); m.rank != noRank {
			queue.push(uint64(m.rank)<<32 | uint64(at))
		}
	}
	for i := range symbols {
		offer(int32(i))
	}
	for len(queue) > 0 {
		entry := queue.pop()
		at := int32(entry & (1<<32 - 1))
		left := &symbols[at]
		if left.id == None || left.next < 0 {
			continue
		}
		right := &symbols[left.next]
		m := b.pairs.find(left.id, right.id)
		if uint64(m.rank) != entry>>32 {
			continue
		}
		left.id, left.next = m.token, right.next
		right.id = None
		if left.next >= 0 {
			symbols[left.next].prev = at
		}
		offer(left.prev)
		offer(at)
	}
	for _, s := range symbols {
		if s.id != None {
			dst = append(dst, s.id)
		}
	}
	return dst
}

// A minHeap is a binary heap with its smallest element first.
type minHeap []uint64

func (h *minHeap) push(x uint64) {
	s := append(*h, x)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent] <= x {
			break
		}
		s[i], i = s[parent], parent
	}
	s[i] = x
	*h = s
}

func (h *minHeap) pop() uint64 {
	s := *h
	top, x := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	i := 0
	for {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if s[child] >= x {
			break
		}
		s[i], i = s[child], child
	}
	if len(s) > 0 {
		s[i] = x
	}
	return top
}
