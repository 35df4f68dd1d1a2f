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

// config is config.json. A pointer is nil where the document has no such key, or
// null. Names: https://huggingface.co/docs/transformers, each model's Config.
type config struct {
	ModelType        string   `json:"model_type"`
	Architectures    []string `json:"architectures"`
	HiddenSize       *uint32  `json:"hidden_size"`
	IntermediateSize *uint32  `json:"intermediate_size"`
	Layers           *uint32  `json:"num_hidden_layers"`
	Heads            *uint32  `json:"num_attention_heads"`
	KVHeads          *uint32  `json:"num_key_value_heads"`
	HeadDim          *uint32  `json:"head_dim"`
	Context          *uint32  `json:"max_position_embeddings"`
	VocabSize        *uint32  `json:"vocab_size"`
	Epsilon          *float64 `json:"rms_norm_eps"`
	Tied             *bool    `json:"tie_word_embeddings"`

	HiddenAct        string `json:"hidden_act"`
	HiddenActivation string `json:"hidden_activation"` // Gemma's name of it

	RopeTheta      *float64       `json:"rope_theta"`
	RopeLocalTheta *float64       `json:"rope_local_base_freq"`
	RopeScaling    *ropeConfig    `json:"rope_scaling"`
	RopeParameters jsontext.Value `json:"rope_parameters"` // from transformers 5 on, in place of the three

	SlidingWindow        *uint32 `json:"sliding_window"`
	SlidingWindowPattern *uint32 `json:"sliding_window_pattern"`
	UseSlidingWindow     bool    `json:"use_sliding_window"`

	LayerTypes  []string `json:"layer_types"`
	QueryScalar *float64 `json:"query_pre_attn_scalar"`

	Softcap      *float64       `json:"final_logit_softcapping"`
	Quantization jsontext.Value `json:"quantization_config"`

	BOS idList `json:"bos_token_id"`
	EOS idList `json:"eos_token_id"`
}

// readConfig reads config.json and finds its architecture.
func readConfig(folder string) (*config, *architecture, error) {
	c := &config{}
	path := filepath.Join(folder, configFile)
	found, err := readJSON(folder, configFile, maxConfig, c)
	if err != nil {
		return nil, nil, err
	}
	if !found {
		return nil, nil, fmt.Errorf("%s: not there; a folder of weights has config.json, tokenizer.json and model.safetensors; if it is a GGUF file that you want, name the file", path)
	}
	if err := c.refuseQuantized(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	a, ok := architectures[c.ModelType]
	if !ok {
		return nil, nil, fmt.Errorf("%s: model_type %q is not supported; supported are %s", path, c.ModelType, supported())
	}
	if err := c.settleRope(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, a, nil
}

// refuseQuantized refuses weights that someone has packed: GPTQ, AWQ, FP8 and
// their kin have forms of their own.
func (c *config) refuseQuantized() error {
	if c.Quantization == nil || c.Quantization.Kind() == 'n' {
		return nil
	}
	var q struct {
		Method string `json:"quant_method"`
	}
	_ = json.Unmarshal(c.Quantization, &q) // the word is only for the message
	return fmt.Errorf("quantization_config: weights packed by %q are not supported; take the model in BF16, F16 or F32, here with --quantize q8_0, or a GGUF file of it", q.Method)
}

// maxHeadDim bounds what is made from config.json alone: the factors of a rope.
const maxHeadDim = 1 << 14

// metadata gives the keys that GGUF has for the configuration.
func (c *config) metadata(a *architecture) ([]gguf.KeyValue, error) {
	k := &keys{prefix: a.name + "."}
	k.add("general.architecture", a.name)
	k.count("block_count", "num_hidden_layers", c.Layers)
	k.count("context_length", "max_position_embeddings", c.Context)
	k.count("embedding_length", "hidden_size", c.HiddenSize)
	k.count("feed_forward_length", "intermediate_size", c.IntermediateSize)
	k.count("attention.head_count", "num_attention_heads", c.Heads)
	if c.KVHeads != nil {
		k.count("attention.head_count_kv", "num_key_value_heads", c.KVHeads)
	}
	if c.HeadDim != nil {
		k.count("attention.key_length", "head_dim", c.HeadDim)
		k.count("attention.value_length", "head_dim", c.HeadDim)
	}
	if d := c.headDim(); d > maxHeadDim {
		k.fault("head_dim: heads of %d values are larger than those of any model, at most %d are believed", d, maxHeadDim)
	}
	k.float("attention.layer_norm_rms_epsilon", orDefault(c.Epsilon, 1e-6))
	k.float("rope.freq_base", orDefault(c.RopeTheta, a.ropeTheta))
	if act := c.HiddenAct + c.HiddenActivation; act != "" && c.HiddenAct != a.activation && c.HiddenActivation != a.activation {
		k.fault("hidden_act: %q is not supported; in this architecture it is %s", act, a.activation)
	}
	if c.Softcap != nil && *c.Softcap != 0 {
		k.fault("final_logit_softcapping: found %g: capped logits are not supported", *c.Softcap)
	}
	if c.UseSlidingWindow {
		k.fault("use_sliding_window: true is not supported")
	}
	if !a.windows && slices.ContainsFunc(c.LayerTypes, func(t string) bool { return t != fullAttention }) {
		k.fault("layer_types: %.200q: in this architecture every layer is %s", c.LayerTypes, fullAttention)
	}
	if s := c.RopeScaling; s != nil && s.kind() == "linear" {
		k.add(k.prefix+"rope.scaling.type", "linear")
		k.float("rope.scaling.factor", s.Factor)
	}
	if a.keys != nil {
		a.keys(k, c)
	}
	return k.list, errors.Join(k.faults...)
}

// keys gathers metadata and the faults of what it is made from.
type keys struct {
	prefix string
	list   []gguf.KeyValue
	faults []error
}

func (k *keys) add(key string, value any) {
	k.list = append(k.list, gguf.KeyValue{Key: key, Value: value})
}

func (k *keys) fault(format string, args ...any) {
	k.faults = append(k.faults, fmt.Errorf(format, args...))
}

// count adds a number that config.json must have under the name.
func (k *keys) count(key, name string, n *uint32) {
	if n == nil {
		k.fault("%s is missing", name)
		return
	}
	k.add(k.prefix+key, *n)
}

func (k *keys) float(key string, x float64) { k.add(k.prefix+key, float32(x)) }

func orDefault(x *float64, absent float64) float64 {
	if x == nil {
		return absent
	}
	return *x
}

// fullAttention is the type of layers that see all positions.
const fullAttention = "full_attention"

// tied tells whether the output matrix is the embedding. Transformers' default
// is that it is; Llama and its kin have false, and write it down where not.
func (c *config) tied(a *architecture) bool {
	if c.Tied == nil {
		return a.tied
	}
	return *c.Tied
}

// headDim is the length of a head, 0 if the configuration does not tell.
func (c *config) headDim() int {
	switch {
	case c.HeadDim != nil:
		return int(*c.HeadDim)
	case c.HiddenSize != nil && c.Heads != nil && *c.Heads > 0:
		return int(*c.HiddenSize / *c.Heads)
	}
	return 0
}

// idList is a token id, a list of them, or null.
type idList []uint32

// UnmarshalJSON reads one of the three.
func (l *idList) UnmarshalJSON(data []byte) error {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "null":
		*l = nil
		return nil
	case strings.HasPrefix(text, "["):
		return json.Unmarshal(data, (*[]uint32)(l))
	}
	var id uint32
	if err := json.Unmarshal(data, &id); err != nil {
		return err
	}
	*l = idList{id}
	return nil
}
