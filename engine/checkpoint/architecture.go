package checkpoint

import (
	"maps"
	"slices"
	"strings"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// An architecture is how one family's folders become a file.
type architecture struct {
	// name is GGUF's word for it.
	name string
	// layer names the tensors of a layer, without model.layers.N. before and
	// blk.N. after the change, and without .weight and .bias.
	layer map[string]string
	// interleaved tells that the file's rope rotates neighbouring values, where
	// the folder's rotates the halves of a head: rows of q and k change places.
	interleaved bool
	// normPlusOne tells that the folder holds norms less one.
	normPlusOne bool
	// activation, ropeTheta and tied are transformers' defaults; no other
	// activation is known to the model.
	activation string
	ropeTheta  float64
	tied       bool
	// windows tells that some layers see the last positions only.
	windows bool
	// keys adds what only this family has; nil adds nothing.
	keys func(k *keys, c *config)
}

// architectures are the families by config.json's model_type.
var architectures = map[string]*architecture{
	"llama":   {name: "llama", layer: plainLayer, interleaved: true, activation: "silu", ropeTheta: 10000},
	"mistral": {name: "llama", layer: plainLayer, interleaved: true, activation: "silu", ropeTheta: 10000, keys: mistralKeys},
	"qwen2":   {name: "qwen2", layer: plainLayer, activation: "silu", ropeTheta: 10000},
	"qwen3":   {name: "qwen3", layer: headNormLayer, activation: "silu", ropeTheta: 10000},
	"gemma3_text": {name: "gemma3", layer: gemma3Layer, normPlusOne: true, activation: "gelu_pytorch_tanh", ropeTheta: 1_000_000, tied: true,
		windows: true, keys: gemma3Keys},
}

// mistralKeys ends the context where the window of the first Mistral would begin
// to hide positions: the model knows none. Later ones have null for it.
func mistralKeys(k *keys, c *config) {
	if c.SlidingWindow != nil && c.Context != nil && *c.SlidingWindow < *c.Context {
		i := slices.IndexFunc(k.list, func(kv gguf.KeyValue) bool { return kv.Key == k.prefix+"context_length" })
		k.list[i].Value = *c.SlidingWindow
	}
}

// supported lists the families for messages.
func supported() string {
	return strings.Join(slices.Sorted(maps.Keys(architectures)), ", ")
}

// outer names the tensors outside of layers.
var outer = map[string]string{
	"model.embed_tokens": "token_embd",
	"model.norm":         "output_norm",
	"lm_head":            "output",
}

// plainLayer is the layer of Llama, Mistral and Qwen 2.
var plainLayer = map[string]string{
	"input_layernorm":          "attn_norm",
	"self_attn.q_proj":         "attn_q",
	"self_attn.k_proj":         "attn_k",
	"self_attn.v_proj":         "attn_v",
	"self_attn.o_proj":         "attn_output",
	"post_attention_layernorm": "ffn_norm",
	"mlp.gate_proj":            "ffn_gate",
	"mlp.up_proj":              "ffn_up",
	"mlp.down_proj":            "ffn_down",
}

// headNormLayer is Qwen 3's: each head of queries and keys has a norm.
var headNormLayer = with(plainLayer, map[string]string{
	"self_attn.q_norm": "attn_q_norm",
	"self_attn.k_norm": "attn_k_norm",
})

// gemma3Layer norms each branch before and after; post_attention_layernorm is
// what its name says.
var gemma3Layer = with(headNormLayer, map[string]string{
	"post_attention_layernorm":   "post_attention_norm",
	"pre_feedforward_layernorm":  "ffn_norm",
	"post_feedforward_layernorm": "post_ffw_norm",
})

func with(base, more map[string]string) map[string]string {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// rename gives a tensor's name in GGUF.
func (a *architecture) rename(name string) (renamed string, ok bool) {
	stem, kind := name, ""
	for _, k := range []string{".weight", ".bias"} {
		if s, cut := strings.CutSuffix(name, k); cut {
			stem, kind = s, k
		}
	}
	if to, ok := outer[stem]; ok {
		return to + kind, kind != ""
	}
	rest, ok := strings.CutPrefix(stem, "model.layers.")
	if !ok {
		return "", false
	}
	number, part, _ := strings.Cut(rest, ".")
	to, ok := a.layer[part]
	digits := number != "" && len(number) <= 4 && strings.Trim(number, "0123456789") == ""
	return "blk." + number + "." + to + kind, ok && digits && kind != ""
}

// ignored tells of tensors that a forward pass computes itself.
func ignored(name string) bool { return strings.HasSuffix(name, ".rotary_emb.inv_freq") }
