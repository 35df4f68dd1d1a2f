package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// The types of tokens in tokenizer.ggml.token_type.
const (
	typeNormal      int32 = 1
	typeUnknown     int32 = 2
	typeControl     int32 = 3
	typeUserDefined int32 = 4
	typeUnused      int32 = 5
	typeByte        int32 = 6
)

// tokenizerFile is tokenizer.json, of the library tokenizers.
type tokenizerFile struct {
	Added         []addedToken   `json:"added_tokens"`
	Normalizer    jsontext.Value `json:"normalizer"`
	PreTokenizer  jsontext.Value `json:"pre_tokenizer"`
	PostProcessor *processor     `json:"post_processor"`
	Model         struct {
		Type         string           `json:"type"`
		Vocab        jsontext.Value   `json:"vocab"` // a list in other types
		Merges       []jsontext.Value `json:"merges"`
		ByteFallback bool             `json:"byte_fallback"`
		IgnoreMerges bool             `json:"ignore_merges"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
		Unknown      string           `json:"unk_token"`
	} `json:"model"`
}

type addedToken struct {
	ID      uint32 `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// processor is what adds tokens around a text.
type processor struct {
	Type       string      `json:"type"`
	Processors []processor `json:"processors"` // of a Sequence
	Single     []struct {  // of a TemplateProcessing
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
	} `json:"single"`
}

// begins gives the token that is put before a text, "" for none.
func (p *processor) begins() string {
	if p == nil {
		return ""
	}
	if len(p.Single) > 0 && p.Single[0].Special != nil {
		return p.Single[0].Special.ID
	}
	for i := range p.Processors {
		if token := p.Processors[i].begins(); token != "" {
			return token
		}
	}
	return ""
}

// readTokenizer reads tokenizer.json.
func readTokenizer(path string) (*tokenizerFile, error) {
	file := &tokenizerFile{}
	found, err := readJSON(filepath.Dir(path), filepath.Base(path), maxTokenizer, file)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%s: not there; tokenizers in other forms, such as tokenizer.model, are not supported", path)
	}
	if err := file.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// checkTokenizer tells whether a folder's tokenizer is of a kind that is read.
func checkTokenizer(folder string) error {
	path := filepath.Join(folder, "tokenizer.json")
	file, err := readTokenizer(path)
	if err != nil {
		return err
	}
	if _, err := file.keys(&vocabulary{}); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readVocabulary gives the metadata of the folder's tokenizer and chat template.
func readVocabulary(folder string, c *config) ([]gguf.KeyValue, error) {
	path := filepath.Join(folder, "tokenizer.json")
	file, err := readTokenizer(path)
	if err != nil {
		return nil, err
	}
	v, err := file.vocabulary(int(*c.VocabSize))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list, err := file.keys(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list = append(list, gguf.KeyValue{Key: "tokenizer.ggml.tokens", Value: v.tokens}, gguf.KeyValue{Key: "tokenizer.ggml.token_type", Value: v.types})
	special, err := readSpecial(folder, c, file, v.tokens)
	return append(list, special...), err
}

// keys gives the keys of the tokenizer's kind.
func (f *tokenizerFile) keys(v *vocabulary) ([]gguf.KeyValue, error) {
	if f.Model.ByteFallback {
		return f.sentencePiece(v)
	}
	return f.byteLevel(v)
}

// byteLevel gives the keys of byte-level BPE.
func (f *tokenizerFile) byteLevel(v *vocabulary) ([]gguf.KeyValue, error) {
	if err := checkNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	pre, err := preTokenizer(f.PreTokenizer, f.Model.IgnoreMerges)
	return []gguf.KeyValue{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.merges", Value: v.merges},
	}, err
}

// sentencePiece gives the keys of a SentencePiece model.
func (f *tokenizerFile) sentencePiece(v *vocabulary) ([]gguf.KeyValue, error) {
	spacePrefix, err := sentencePiece(f.Normalizer, f.PreTokenizer)
	if err != nil {
		return nil, err
	}
	scores, err := v.scores()
	return []gguf.KeyValue{
		{Key: "tokenizer.ggml.model", Value: "llama"},
		{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.add_space_prefix", Value: spacePrefix},
	}, err
}

// check refuses tokenizers that are not BPE.
func (f *tokenizerFile) check() error {
	const supported = "supported is BPE, byte-level or in place of a SentencePiece model; a GGUF file of the model may have another form of it"
	switch m := &f.Model; {
	case m.Type != "BPE":
		return fmt.Errorf("a tokenizer of type %.40q is not supported; %s", m.Type, supported)
	case m.Prefix != "" || m.Suffix != "":
		return errors.New("BPE with continuing_subword_prefix or end_of_word_suffix is not supported; " + supported)
	}
	return nil
}

// vocabulary is what tokens there are, by id.
type vocabulary struct {
	tokens []string
	types  []int32
	merges []string
}

// vocabulary gives size tokens. Ids that the file has no token for are filled as
// convert_hf_to_gguf.py does it; size has been checked against the weights.
func (f *tokenizerFile) vocabulary(size int) (*vocabulary, error) {
	v := &vocabulary{tokens: make([]string, size), types: make([]int32, size)}
	var ids map[string]uint32
	if err := json.Unmarshal(f.Model.Vocab, &ids); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	put := func(id uint32, text string, typ int32) error {
		if int64(id) >= int64(size) {
			return fmt.Errorf("token %.80q has the id %d, but the model has %d", text, id, size)
		}
		if v.types[id] != 0 && v.tokens[id] != text {
			return fmt.Errorf("tokens %.80q and %.80q have the same id, %d", v.tokens[id], text, id)
		}
		v.tokens[id], v.types[id] = text, typ
		return nil
	}
	for text, id := range ids {
		if err := put(id, text, typeNormal); err != nil {
			return nil, err
		}
	}
	for _, t := range f.Added {
		typ := typeUserDefined
		if t.Special || looksSpecial(t.Content) {
			typ = typeControl
		}
		if f.Model.ByteFallback && t.Content == f.Model.Unknown {
			typ = typeUnknown
		}
		if err := put(t.ID, t.Content, typ); err != nil {
			return nil, err
		}
	}
	for id, typ := range v.types {
		if typ == 0 {
			v.tokens[id], v.types[id] = fmt.Sprintf("[PAD%d]", id), typeUnused
		}
	}
	for i, value := range f.Model.Merges {
		merge, err := mergeText(value)
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", i, err)
		}
		v.merges = append(v.merges, merge)
	}
	return v, nil
}

// looksSpecial tells of tokens that steer a model though the file doesn't say
// so. Source: does_token_look_special in convert_hf_to_gguf.py.
func looksSpecial(text string) bool {
	if slices.Contains([]string{"<pad>", "<mask>", "<2mass>", "[@BOS@]"}, text) {
		return true
	}
	return strings.HasPrefix(text, "<|") && strings.HasSuffix(text, "|>") ||
		strings.HasPrefix(text, "<｜") && strings.HasSuffix(text, "｜>") ||
		strings.HasPrefix(text, "<unused") && strings.HasSuffix(text, ">")
}

// mergeText reads "a b", or ["a", "b"] as tokenizers has it from 0.20 on.
func mergeText(value jsontext.Value) (string, error) {
	if value.Kind() == '"' {
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	}
	var pair []string
	if err := json.Unmarshal(value, &pair); err != nil {
		return "", err
	}
	if len(pair) != 2 || strings.Contains(pair[0], " ") || strings.Contains(pair[1], " ") {
		return "", fmt.Errorf("found %.80q, want two tokens without spaces", pair)
	}
	return pair[0] + " " + pair[1], nil
}
