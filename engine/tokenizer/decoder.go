package tokenizer

import "unicode/utf8"

// Decoder turns the tokens of one sequence into text as they come. Runes are
// never split: bytes that may still become a rune are held back, and bytes that
// cannot become U+FFFD, one for each longest run that began a rune (the rule
// of Unicode 15 section 3.9, "substitution of maximal subparts", and of
// Python's errors="replace").
type Decoder struct {
	// ShowControl makes control tokens part of the text, by their spelling. Set
	// it before the first token.
	ShowControl bool
	// Whole tells that the tokens are those of a text from its beginning, not the
	// continuation of one: a space that Encode put before the text, or after a
	// control or user-defined token, is left out. Set it before the first token.
	Whole bool

	tokenizer *Tokenizer
	held      [utf8.UTFMax]byte // held[:n] begins a rune
	n         int
	inside    bool // the last token was of text: Encode put no space after it
}

// NewDecoder returns a decoder at the start of a text.
func NewDecoder(t *Tokenizer) *Decoder { return &Decoder{tokenizer: t} }

// Push takes the next token and returns the text that it completes.
func (d *Decoder) Push(id int32) string { return string(d.AppendPush(nil, id)) }

// Flush returns what is left of an unfinished rune as U+FFFD and brings the
// decoder back to its start.
func (d *Decoder) Flush() string { return string(d.AppendFlush(nil)) }

// AppendPush is Push without allocation: it appends the text to dst.
func (d *Decoder) AppendPush(dst []byte, id int32) []byte {
	control := d.tokenizer.Control(id)
	whole := d.tokenizer.whole(id)
	begins := !d.inside && !whole
	d.inside = !whole
	if control && !d.ShowControl {
		return dst
	}
	piece := d.tokenizer.Piece(id)
	if begins && d.Whole && d.tokenizer.spacePrefix && len(piece) > 0 && piece[0] == ' ' {
		piece = piece[1:]
	}
	if d.n == 0 && utf8.Valid(piece) {
		return append(dst, piece...)
	}
	dst, piece = d.finishHeld(dst, piece)
	for len(piece) > 0 {
		r, size := utf8.DecodeRune(piece)
		switch {
		case r != utf8.RuneError || size > 1:
			dst = append(dst, piece[:size]...)
		case !utf8.FullRune(piece):
			d.n = copy(d.held[:], piece)
			return dst
		default:
			size = subpart(piece)
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		piece = piece[size:]
	}
	return dst
}

// AppendFlush is Flush without allocation: it appends the text to dst.
func (d *Decoder) AppendFlush(dst []byte) []byte {
	if d.n > 0 {
		dst = utf8.AppendRune(dst, utf8.RuneError)
		d.n = 0
	}
	d.inside = false
	return dst
}

// finishHeld completes or gives up the bytes held back and returns the rest of
// the piece.
func (d *Decoder) finishHeld(dst, piece []byte) (out, rest []byte) {
	for d.n > 0 && len(piece) > 0 {
		d.held[d.n] = piece[0]
		if !utf8.FullRune(d.held[:d.n+1]) {
			d.n++
			piece = piece[1:]
			continue
		}
		if r, size := utf8.DecodeRune(d.held[:d.n+1]); r != utf8.RuneError || size > 1 {
			dst = append(dst, d.held[:size]...)
			piece = piece[1:]
		} else {
			dst = utf8.AppendRune(dst, utf8.RuneError) // the next byte begins afresh
		}
		d.n = 0
	}
	return dst, piece
}

// subpart returns the length of the longest start of p that could have begun a
// rune, for p that begins with none; at least 1.
func subpart(p []byte) int {
	n := 1
	for n < len(p) && !utf8.FullRune(p[:n+1]) {
		n++
	}
	return n
}
