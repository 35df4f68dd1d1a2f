package checkpoint

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// tokenizerConfig is tokenizer_config.json.
type tokenizerConfig struct {
	AddBOS       *bool          `json:"add_bos_token"`
	BOS          tokenText      `json:"bos_token"`
	EOS          tokenText      `json:"eos_token"`
	ChatTemplate jsontext.Value `json:"chat_template"`
}

// tokenText is the spelling of a token, "" for none.
type tokenText string

// UnmarshalJSON reads a string, an object with the content, or null.
func (t *tokenText) UnmarshalJSON(data []byte) error {
	var token struct {
		Content string `json:"content"`
	}
	switch strings.TrimSpace(string(data))[:1] {
	case "n":
		return nil
	case "{":
		err := json.Unmarshal(data, &token)
		*t = tokenText(token.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

// maxTemplate is a bound on chat templates, in bytes; the longest known have
// some ten thousand.
const maxTemplate = 1 << 20

// readSpecial gives the tokens that begin and end texts, and the chat template.
// Names come before numbers, as the tokenizer itself has it; of what ends a
// generation, generation_config.json has the list.
func readSpecial(folder string, c *config, file *tokenizerFile, tokens []string) ([]gguf.KeyValue, error) {
	var t tokenizerConfig
	if _, err := readJSON(folder, "tokenizer_config.json", maxConfig, &t); err != nil {
		return nil, err
	}
	var generation struct {
		EOS idList `json:"eos_token_id"`
	}
	if _, err := readJSON(folder, "generation_config.json", maxConfig, &generation); err != nil {
		return nil, err
	}
	k := &keys{}
	bos, hasBOS := idOf(string(t.BOS), tokens, c.BOS)
	if hasBOS {
		k.add("tokenizer.ggml.bos_token_id", bos)
	}
	addBOS := hasBOS && file.PostProcessor.begins() == tokens[bos]
	if t.AddBOS != nil {
		addBOS = hasBOS && *t.AddBOS
	}
	k.add("tokenizer.ggml.add_bos_token", addBOS)

	ends := slices.Concat(generation.EOS, c.EOS)
	if eos, ok := idOf(string(t.EOS), tokens, ends); ok {
		ends = slices.Insert(ends, 0, eos)
	}
	ends = unique(ends)
	for i, id := range ends {
		if int64(id) >= int64(len(tokens)) {
			return nil, fmt.Errorf("%s: the end-of-text token is %d, but the vocabulary has %d tokens", folder, id, len(tokens))
		}
		if i < len(endKeys) {
			k.add(endKeys[i], id)
		}
	}
	if len(ends) > len(endKeys) {
		k.add("tokenizer.ggml.eog_token_ids", []uint32(ends[len(endKeys):]))
	}
	template, err := readTemplate(folder, t.ChatTemplate)
	if err != nil {
		return nil, err
	}
	if template != "" {
		k.add("tokenizer.chat_template", template)
	}
	return k.list, nil
}

// endKeys are GGUF's keys of tokens that end a generation.
var endKeys = []string{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}

// idOf gives the id of a token by its spelling, else the first of the ids.
func idOf(text string, tokens []string, ids idList) (uint32, bool) {
	if text != "" {
		if id := slices.Index(tokens, text); id >= 0 {
			return uint32(id), true
		}
	}
	if len(ids) > 0 && int64(ids[0]) < int64(len(tokens)) {
		return ids[0], true
	}
	return 0, false
}

func unique(ids idList) idList {
	var out idList
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// readTemplate gives the chat template: that of a file of its own before the one
// in tokenizer_config.json, and of several the one named default. "" for none.
func readTemplate(folder string, inConfig jsontext.Value) (string, error) {
	text, err := readFile(folder, "chat_template.jinja", maxTemplate)
	if text != nil || err != nil {
		return string(text), err
	}
	var alone struct {
		ChatTemplate jsontext.Value `json:"chat_template"`
	}
	if _, err := readJSON(folder, "chat_template.json", maxConfig, &alone); err != nil {
		return "", err
	}
	if alone.ChatTemplate != nil {
		inConfig = alone.ChatTemplate
	}
	if inConfig == nil || inConfig.Kind() == 'n' {
		return "", nil
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("%s: chat_template: %w", filepath.Join(folder, "tokenizer_config.json"), err)
	}
	if inConfig.Kind() == '"' {
		var template string
		if err := json.Unmarshal(inConfig, &template); err != nil {
			return fail(err)
		}
		return template, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(inConfig, &named); err != nil {
		return fail(err)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", nil
}
