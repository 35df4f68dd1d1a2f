package tokenizer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spaceMark is how SentencePiece spells a space, U+2581. In a text it stands for
// a space as well.
const spaceMark = "▁"

// An spm merges the runes of a text into tokens as SentencePiece's BPE does: of
// all neighbours that together are a token, those with the highest score become
// it, the leftmost first. There are no words: tokens may reach across spaces. A
// rune that ends up in no token becomes the tokens of its bytes. Source: Kudo
// and Richardson, https://arxiv.org/abs/1808.06226, section 3.2, and
// llm_tokenizer_spm_session in llama.cpp's llama-vocab.cpp.
type spm struct {
	ids         map[string]int32 // bytes → token, of those that text may become
	keys        []uint32         // by id: the score's order, the highest first
	bytes       [256]int32       // the token of each byte
	longest     int              // length in bytes of the longest token in ids
	spacePrefix bool             // a text is taken as if it began with a space
}

func newSPMTokenizer(v Vocab) (*Tokenizer, error) {
	t, err := newTokenizer(v, appendSPMPiece)
	if err != nil {
		return nil, err
	}
	s, err := newSPM(t, v)
	if err != nil {
		return nil, err
	}
	t.text, t.spacePrefix = s, v.SpacePrefix
	return t, nil
}

// appendSPMPiece appends the bytes that the spelling of a normal token or that
// of a byte, "<0x0A>", stands for.
func appendSPMPiece(dst []byte, text string, typ TokenType) []byte {
	if typ == Byte {
		if b, ok := spelledByte(text); ok {
			return append(dst, b)
		}
	}
	return append(dst, strings.ReplaceAll(text, spaceMark, " ")...)
}

func spelledByte(text string) (byte, bool) {
	if len(text) != len("<0x00>") || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(text[3:5], 16, 8)
	return byte(b), err == nil
}

func newSPM(t *Tokenizer, v Vocab) (*spm, error) {
	if len(v.Scores) != len(v.Tokens) {
		return nil, fmt.Errorf("the vocabulary has %d tokens but %d scores", len(v.Tokens), len(v.Scores))
	}
	s := &spm{ids: make(map[string]int32, len(v.Tokens)), keys: make([]uint32, len(v.Tokens)), spacePrefix: v.SpacePrefix}
	for b := range s.bytes {
		s.bytes[b] = None
	}
	all := string(t.pieces)
	for i, score := range v.Scores {
		if score != score {
			return nil, fmt.Errorf("the score of token %d is not a number", i)
		}
		s.keys[i] = descending(score)
		piece := all[t.offsets[i]:t.offsets[i+1]]
		switch typ := v.typeOf(i); {
		case t.control[i] || typ == UserDefined || typ == Unused || piece == "":
		case typ == Byte:
			if b, ok := spelledByte(v.Tokens[i]); !ok {
				return nil, fmt.Errorf("token %d is of type byte but spelled %.80q, want one such as <0x0A>", i, v.Tokens[i])
			} else if s.bytes[b] == None {
				s.bytes[b] = int32(i)
			}
		default:
			if _, ok := s.ids[piece]; !ok {
				s.ids[piece] = int32(i)
				s.longest = max(s.longest, len(piece))
			}
		}
	}
	for b, id := range s.bytes {
		if id == None {
			return nil, fmt.Errorf("the vocabulary has no token for byte %#02x; SentencePiece vocabularies without tokens for all bytes are not supported", b)
		}
	}
	return s, nil
}

// descending maps numbers to integers in the opposite order.
func descending(x float32) uint32 {
	bits := math.Float32bits(x + 0) // -0 becomes 0
	if bits>>31 == 1 {
		return bits
	}
	return ^(bits | 1<<31)
}

// A part is a run of a text's bytes that is or may become a token; parts form a
// list.
type part struct {
	start, end int32 // equal once merged into the left neighbour
	prev, next int32 // -1 at the ends
}

// appendText implements textEncoder.
func (s *spm) appendText(dst []int32, text string, begins bool) []int32 {
	if text == "" {
		return dst
	}
	text = strings.ReplaceAll(text, spaceMark, " ")
	if begins && s.spacePrefix {
		text = " " + text
	}
	parts := s.merge(text)
	for i := int32(0); i >= 0; i = parts[i].next {
		piece := text[parts[i].start:parts[i].end]
		if id := s.id(piece); id != None {
			dst = append(dst, id)
			continue
		}
		for j := range len(piece) {
			dst = append(dst, s.bytes[piece[j]])
		}
	}
	return dst
}

// merge cuts a text that is not empty into tokens and single runes. The heap
// works as in bpe.mergeLong, with the score's key for a rank.
func (s *spm) merge(text string) []part {
	parts := make([]part, 0, len(text))
	for at := 0; at < len(text); {
		_, size := utf8.DecodeRuneInString(text[at:])
		n := int32(len(parts))
		parts = append(parts, part{int32(at), int32(at + size), n - 1, n + 1})
		at += size
	}
	parts[len(parts)-1].next = -1
	// pair returns the entry of a part and its neighbour, if they are a token.
	pair := func(at int32) (entry uint64, ok bool) {
		if at < 0 || parts[at].start == parts[at].end || parts[at].next < 0 {
			return 0, false
		}
		id := s.id(text[parts[at].start:parts[parts[at].next].end])
		if id == None {
			return 0, false
		}
		return uint64(s.keys[id])<<32 | uint64(at), true
	}
	var queue minHeap
	offer := func(at int32) {
		if entry, ok := pair(at); ok {
			queue.push(entry)
		}
	}
	for i := range parts {
		offer(int32(i))
	}
	for len(queue) > 0 {
		entry := queue.pop()
		at := int32(entry & (1<<32 - 1))
		if current, ok := pair(at); !ok || current != entry {
			continue
		}
		left := &parts[at]
		right := &parts[left.next]
		left.end, left.next = right.end, right.next
		right.start = right.end
		if left.next >= 0 {
			parts[left.next].prev = at
		}
		offer(left.prev)
		offer(at)
	}
	return parts
}

func (s *spm) id(piece string) int32 {
	if len(piece) > s.longest {
		return None
	}
	if id, ok := s.ids[piece]; ok {
		return id
	}
	return None
}
