package tokenizer

import (
	"fmt"
	"slices"
)

// The families by their names in tokenizer.ggml.model.
const (
	modelBPE = "gpt2"  // byte-level BPE
	modelSPM = "llama" // SentencePiece's BPE
)

// Special says what the spelling of a control token in a text is.
type Special int

const (
	// AsText takes all spellings for plain text. It is for text that a user
	// wrote, who must not be able to end a turn or begin another.
	AsText Special = iota
	// Parsed recognises control tokens. It is for text that a model's own chat
	// template made.
	Parsed
)

// Tokenizer holds one model's vocabulary.
type Tokenizer struct {
	pieces  []byte  // the bytes of all tokens, one after the other
	offsets []int   // token id's bytes are pieces[offsets[id]:offsets[id+1]]
	control []bool  // by id
	defined []bool  // by id: UserDefined
	ends    []bool  // by id: EOG
	ids     []int32 // ids of the control tokens, ascending

	text   textEncoder
	inText *matcher // tokens recognised in any text
	parsed *matcher // these and the control tokens

	bos, eos    int32
	addBOS      bool
	spacePrefix bool // Encode puts a space before a text
}

// A textEncoder appends the tokens of a text in which no special tokens are.
// begins tells that the text is the first, or follows a special token.
type textEncoder interface {
	appendText(dst []int32, text string, begins bool) []int32
}

// New makes a tokenizer, or says what in the vocabulary is wrong or not
// supported.
func New(v Vocab) (*Tokenizer, error) {
	switch v.Model {
	case modelBPE:
		return newBPETokenizer(v)
	case modelSPM:
		return newSPMTokenizer(v)
	}
	return nil, unknownModel(v.Model)
}

// newTokenizer makes a tokenizer without its textEncoder. appendPiece appends
// the bytes that the spelling of a token of text stands for.
func newTokenizer(v Vocab, appendPiece func(dst []byte, text string, typ TokenType) []byte) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{
		offsets: make([]int, 1, len(v.Tokens)+1),
		control: make([]bool, len(v.Tokens)),
		defined: make([]bool, len(v.Tokens)),
		ends:    make([]bool, len(v.Tokens)),
		bos:     v.BOS,
		eos:     v.EOS,
		addBOS:  v.AddBOS,
	}
	var inText, parsed []spelling
	for i, text := range v.Tokens {
		id, typ := int32(i), v.typeOf(i)
		t.addToken(id, text, typ, appendPiece)
		if t.defined[id] = typ == UserDefined; t.defined[id] {
			inText = append(inText, spelling{text, id})
		}
		if typ == UserDefined || t.control[i] {
			parsed = append(parsed, spelling{text, id})
			t.ends[i] = v.isEnd(id) || endsGeneration(text)
		}
	}
	t.inText, t.parsed = newMatcher(inText), newMatcher(parsed)
	return t, nil
}

func unknownModel(model string) error {
	return fmt.Errorf("tokenizer model %q is not supported; the supported ones are %q (byte-level BPE) and %q (SentencePiece)", model, modelBPE, modelSPM)
}

// typeOf returns the type of a token. One that ends a generation is a control
// token even where an old file has no types or calls it normal.
func (v Vocab) typeOf(id int) TokenType {
	switch {
	case v.isEnd(int32(id)):
		return Control
	case v.Types == nil:
		return Normal
	}
	return v.Types[id]
}

func (v Vocab) isEnd(id int32) bool { return id == v.EOS || slices.Contains(v.Ends, id) }

// maxEntries bounds the numbers of tokens and merges, far above every known
// model, so that ids and ranks fit into int32.
const maxEntries = 1 << 24

// check refuses what would make an id point outside the vocabulary.
func (v Vocab) check() error {
	if len(v.Tokens) == 0 || len(v.Tokens) > maxEntries || len(v.Merges) > maxEntries {
		return fmt.Errorf("the vocabulary has %d tokens and %d merges; 1 to %d tokens and no more merges than that are supported", len(v.Tokens), len(v.Merges), maxEntries)
	}
	if v.Types != nil && len(v.Types) != len(v.Tokens) {
		return fmt.Errorf("the vocabulary has %d tokens but %d token types", len(v.Tokens), len(v.Types))
	}
	check := func(name string, id int32) error {
		if id != None && (id < 0 || int(id) >= len(v.Tokens)) {
			return fmt.Errorf("%s token is %d, but the vocabulary has %d tokens", name, id, len(v.Tokens))
		}
		return nil
	}
	if err := check("the beginning-of-text", v.BOS); err != nil {
		return err
	}
	if err := check("the end-of-text", v.EOS); err != nil {
		return err
	}
	for _, id := range v.Ends {
		if err := check("an end-of-turn", id); err != nil {
			return err
		}
	}
	if v.AddBOS && v.BOS == None {
		return fmt.Errorf("prompts are to begin with the beginning-of-text token, but the vocabulary names none")
	}
	return nil
}

// addToken takes in the token with the next id.
func (t *Tokenizer) addToken(id int32, text string, typ TokenType, appendPiece func(dst []byte, text string, typ TokenType) []byte) {
	switch typ {
	case Control, Unknown:
		t.control[id] = true
		t.ids = append(t.ids, id)
		t.pieces = append(t.pieces, text...)
	case UserDefined:
		t.pieces = append(t.pieces, text...)
	default:
		t.pieces = appendPiece(t.pieces, text, typ)
	}
	t.offsets = append(t.offsets, len(t.pieces))
}

// endsGeneration tells whether the spelling is that of a token by which some
// model ends its turn or text. Files often name only one of theirs, so
// llama.cpp decides by spelling too (special_eog_ids in llama-vocab.cpp). What pads
// a text or begins another file or repository ends it as well.
func endsGeneration(text string) bool {
	switch text {
	case "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
		"<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
		"<|end_of_text|>", "<end_of_utterance>",
		"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
		"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>":
		return true
	}
	return false
}

// Encode appends the ids of text to dst. It adds no BOS; see AddBOS. Where the
// vocabulary asks for it, a space is put before a text that dst's last token
// does not continue: the first, and one after a control or user-defined token,
// as llama.cpp and the Hugging Face library have it. A byte that the vocabulary has no token for is left out, as llama.cpp and the Hugging Face
// library do: the model has no way to be told of it. Bytes that are not UTF-8
// are encoded as they are.
func (t *Tokenizer) Encode(dst []int32, text string, mode Special) []int32 {
	specials := t.inText
	if mode == Parsed {
		specials = t.parsed
	}
	begins := len(dst) == 0 || t.whole(dst[len(dst)-1])
	for {
		start, end, id := specials.find(text)
		dst = t.text.appendText(dst, text[:start], begins)
		if id == None {
			return dst
		}
		dst = append(dst, id)
		text, begins = text[end:], true
	}
}

// Size returns the number of ids: they go from 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.control) }

// AddBOS tells whether the model expects prompts to begin with BOS.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// BOS returns the token that begins a text, if there is one.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.bos, t.bos != None }

// EOS returns the token that ends a text, if there is one.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.eos, t.eos != None }

// EOG tells whether the token ends a generation: the end of a text, a turn or
// a message, of which a model may have several.
func (t *Tokenizer) EOG(id int32) bool { return t.has(id) && t.ends[id] }

// Control tells whether the token steers the model rather than spelling text.
func (t *Tokenizer) Control(id int32) bool { return t.has(id) && t.control[id] }

// whole tells whether the token is recognised in a text before any merging.
func (t *Tokenizer) whole(id int32) bool { return t.has(id) && (t.control[id] || t.defined[id]) }

// Piece returns the bytes of a token, which may be part of a rune; those of a
// control token are its spelling. An id outside the vocabulary has none. The
// slice is a view, not to be changed.
func (t *Tokenizer) Piece(id int32) []byte {
	if !t.has(id) {
		return nil
	}
	start, end := t.offsets[id], t.offsets[id+1]
	return t.pieces[start:end:end]
}

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < t.Size() }

// Lookup returns the control or user-defined token of that spelling.
func (t *Tokenizer) Lookup(text string) (id int32, ok bool) {
	start, end, id := t.parsed.find(text)
	if start != 0 || end != len(text) || id == None {
		return None, false
	}
	return id, true
}

// Specials returns the spellings of the control tokens, in the order of ids.
func (t *Tokenizer) Specials() []string {
	out := make([]string, len(t.ids))
	for i, id := range t.ids {
		out[i] = string(t.Piece(id))
	}
	return out
}

// Bytes returns a tokenizer without a model: each byte is a token, whose id is
// the byte, and three control tokens follow. Any text encodes to as many tokens
// as it has bytes and comes back unchanged.
func Bytes() *Tokenizer {
	var tokens []string
	for _, r := range byteRunes() {
		tokens = append(tokens, string(r))
	}
	specials := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	types := slices.Concat(slices.Repeat([]TokenType{Normal}, 256), slices.Repeat([]TokenType{Control}, len(specials)))
	t, err := New(Vocab{
		Model:  modelBPE,
		Pre:    "gpt2",
		Tokens: append(tokens, specials...),
		Types:  types,
		BOS:    None,
		EOS:    256,
	})
	if err != nil {
		panic("tokenizer: the vocabulary of bytes is refused: " + err.Error())
	}
	return t
}
