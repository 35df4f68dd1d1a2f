package checkpoint

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// pretokenizer is a node of tokenizer.json's pre_tokenizer.
type pretokenizer struct {
	Type string         `json:"type"`
	All  []pretokenizer `json:"pretokenizers"` // of a Sequence

	Individual bool `json:"individual_digits"` // of Digits

	PrefixSpace bool  `json:"add_prefix_space"` // of ByteLevel
	UseRegex    *bool `json:"use_regex"`        // default true

	Pattern struct { // of Split
		Regex string `json:"Regex"`
	} `json:"pattern"`
	Behavior string `json:"behavior"`
	Invert   bool   `json:"invert"`
}

// The expressions by which families cut text, and GGUF's words for them.
var expressions = map[string]string{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "llama-bpe",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:      "qwen2",
}

// preTokenizer gives GGUF's word for a way to cut text. A word's name also says
// whether merges are ignored for words that are tokens, so the two must agree.
func preTokenizer(value jsontext.Value, ignoreMerges bool) (string, error) {
	var p pretokenizer
	if value != nil {
		if err := json.Unmarshal(value, &p); err != nil {
			return "", fmt.Errorf("pre_tokenizer: %w", err)
		}
	}
	steps := []pretokenizer{p}
	if p.Type == "Sequence" {
		steps = p.All
	}
	name, err := nameOf(steps)
	if err != nil {
		return "", fmt.Errorf("pre_tokenizer: %w; supported are those of GPT-2, SmolLM, Llama 3 and Qwen 2", err)
	}
	if ignoreMerges != (name == "llama-bpe") {
		return "", fmt.Errorf("ignore_merges: %t is not supported for the pre-tokenizer %s", ignoreMerges, name)
	}
	return name, nil
}

func nameOf(steps []pretokenizer) (string, error) {
	last := len(steps) - 1
	if last < 0 || last > 1 || steps[last].Type != "ByteLevel" || steps[last].PrefixSpace {
		return "", fmt.Errorf("found %s, want bytes, without a space put before the text, as the last step", typesOf(steps))
	}
	regex := steps[last].UseRegex == nil || *steps[last].UseRegex
	switch first := steps[0]; {
	case last == 0 && regex:
		return "gpt-2", nil
	case last == 1 && first.Type == "Digits" && first.Individual && regex:
		return "smollm", nil
	case last == 1 && first.Type == "Split" && !regex && first.Behavior == "Isolated" && !first.Invert:
		if name, ok := expressions[first.Pattern.Regex]; ok {
			return name, nil
		}
		return "", fmt.Errorf("the expression %.200q is not known", first.Pattern.Regex)
	}
	return "", fmt.Errorf("found %s", typesOf(steps))
}

func typesOf(steps []pretokenizer) []string {
	types := []string{}
	for _, s := range steps[:min(len(steps), 8)] {
		types = append(types, fmt.Sprintf("%.40q", s.Type))
	}
	return types
}

// checkNormalizer accepts none and NFC, which GGUF's tokenizers leave out too:
// nearly all text is in that form.
func checkNormalizer(value jsontext.Value) error {
	if value == nil || value.Kind() == 'n' {
		return nil
	}
	var n struct {
		Type string `json:"type"`
		All  []struct {
			Type string `json:"type"`
		} `json:"normalizers"` // of a Sequence
	}
	if err := json.Unmarshal(value, &n); err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	if n.Type == "NFC" || n.Type == "Sequence" && len(n.All) == 0 {
		return nil
	}
	return fmt.Errorf("normalizer: type %.40q is not supported; supported are none and NFC", n.Type)
}
