package tokenizer

import (
	"errors"
	"fmt"
	"math"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// None stands for a token that the model does not have.
const None int32 = -1

// TokenType is what a token is for, by its number in tokenizer.ggml.token_type.
type TokenType int32

// The types of tokens. Those of types Control and Unknown never come from text
// that a user wrote; those of type UserDefined are recognised in any text.
const (
	Normal      TokenType = 1
	Unknown     TokenType = 2
	Control     TokenType = 3
	UserDefined TokenType = 4
	Unused      TokenType = 5
	Byte        TokenType = 6
)

// Vocab is what a model file says about its tokenizer.
type Vocab struct {
	// Model is the family: "gpt2", byte-level BPE, or "llama", SentencePiece.
	Model string
	// Pre names the pre-tokenizer of byte-level BPE.
	Pre string
	// Tokens holds the spelling of each id: normal tokens in GPT-2's spelling of
	// bytes or, of SentencePiece, with U+2581 for a space and "<0x0A>" for a
	// byte; the others as they stand in text.
	Tokens []string
	// Types holds the type of each id; nil stands for all Normal.
	Types []TokenType
	// Merges lists pairs of tokens, separated by a space, the first to be merged
	// first. Byte-level BPE has them.
	Merges []string
	// Scores holds a number for each id: of two pairs that are tokens, the one
	// with the higher score is merged first. SentencePiece has them.
	Scores []float32
	// SpacePrefix tells whether a text is encoded with a space before it.
	SpacePrefix bool
	// BOS and EOS begin and end a text, None where the model has none.
	BOS, EOS int32
	// Ends lists further ids that end a generation, such as the end of a turn.
	Ends []int32
	// AddBOS tells whether a prompt starts with BOS.
	AddBOS bool
}

// FromGGUF makes the tokenizer of a model file.
func FromGGUF(f *gguf.File) (*Tokenizer, error) {
	v, err := readVocab(f)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	return New(v)
}

func readVocab(f *gguf.File) (v Vocab, err error) {
	if v.Model, err = f.Text("tokenizer.ggml.model"); err != nil {
		return v, err
	}
	switch v.Model {
	case modelBPE:
		err = v.readBPE(f)
	case modelSPM:
		err = v.readSPM(f)
	default:
		err = unknownModel(v.Model) // such a model need not have the other keys
	}
	if err != nil {
		return v, err
	}
	if v.Tokens, err = f.Texts("tokenizer.ggml.tokens"); err != nil {
		return v, err
	}
	types, err := f.Ints("tokenizer.ggml.token_type")
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		return v, err
	}
	for _, t := range types {
		v.Types = append(v.Types, TokenType(t))
	}
	return v, v.readSpecial(f)
}

func (v *Vocab) readBPE(f *gguf.File) (err error) {
	if v.Pre, err = f.Text("tokenizer.ggml.pre"); err != nil {
		return fmt.Errorf("%w; it names the pre-tokenizer, convert the model with a newer converter", err)
	}
	v.Merges, err = f.Texts("tokenizer.ggml.merges")
	return err
}

func (v *Vocab) readSPM(f *gguf.File) (err error) {
	if v.Scores, err = f.Floats("tokenizer.ggml.scores"); err != nil {
		return err
	}
	v.SpacePrefix, err = readBool(f, "tokenizer.ggml.add_space_prefix", true)
	return err
}

// readSpecial reads what is of the tokens that begin and end texts. Defaults
// are llama.cpp's, for the files that were converted before the keys.
func (v *Vocab) readSpecial(f *gguf.File) (err error) {
	bos, eos := None, None
	if v.Model == modelSPM {
		bos, eos = 1, 2
	}
	if v.BOS, err = readID(f, "tokenizer.ggml.bos_token_id", bos); err != nil {
		return err
	}
	if v.EOS, err = readID(f, "tokenizer.ggml.eos_token_id", eos); err != nil {
		return err
	}
	for _, key := range []string{"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		id, err := readID(f, key, None)
		if err != nil {
			return err
		}
		if id != None {
			v.Ends = append(v.Ends, id)
		}
	}
	// Of a model that is not from a GGUF file, further ones.
	more, err := f.Ints("tokenizer.ggml.eog_token_ids")
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		return err
	}
	v.Ends = append(v.Ends, more...)
	addBOS := v.Model == modelSPM
	if pre, err := preTokenizer(v.Pre); v.Model == modelBPE && err == nil { // New tells of an error
		addBOS = pre.addBOS
	}
	v.AddBOS, err = readBool(f, "tokenizer.ggml.add_bos_token", addBOS && v.BOS != None)
	return err
}

func readBool(f *gguf.File, key string, absent bool) (bool, error) {
	b, err := f.Bool(key)
	if errors.Is(err, gguf.ErrNoKey) {
		return absent, nil
	}
	return b, err
}

func readID(f *gguf.File, key string, absent int32) (int32, error) {
	n, err := f.Uint(key)
	switch {
	case errors.Is(err, gguf.ErrNoKey):
		return absent, nil
	case err != nil:
		return None, err
	case n > math.MaxInt32:
		return None, fmt.Errorf("key %q: %d is not a token id", key, n)
	}
	return int32(n), nil
}

// GPT-2 spells each byte as one printable rune: a byte that is printable in
// Latin-1 as itself, the n-th of the others as rune 256+n (bytes_to_unicode in
// the reference implementation's encoder.py).

// byteRunes returns the rune of each byte.
func byteRunes() (runes [256]rune) {
	other := rune(256)
	for b := range runes {
		if '!' <= b && b <= '~' || '¡' <= b && b <= '¬' || '®' <= b && b <= 'ÿ' {
			runes[b] = rune(b)
			continue
		}
		runes[b] = other
		other++
	}
	return runes
}

// An unspeller turns GPT-2's spelling into bytes: entry r is rune r's byte,
// -1 for a rune that spells none.
type unspeller [256 + 68]int16

func newUnspeller() *unspeller {
	var u unspeller
	for i := range u {
		u[i] = -1
	}
	for b, r := range byteRunes() {
		u[r] = int16(b)
	}
	return &u
}

// appendBytes appends the bytes that text spells. A text with any rune that
// spells no byte stands for itself, as the Hugging Face byte-level decoder has
// it.
func (u *unspeller) appendBytes(dst []byte, text string) []byte {
	start := len(dst)
	for _, r := range text {
		if int(r) >= len(u) || u[r] < 0 {
			return append(dst[:start], text...)
		}
		dst = append(dst, byte(u[r]))
	}
	return dst
}
