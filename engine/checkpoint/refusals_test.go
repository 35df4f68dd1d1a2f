package checkpoint_test

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/checkpoint"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// edited is a JSON file of testdata with keys changed, by their dotted path; nil
// removes one.
func edited(t testing.TB, file string, changes map[string]any) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	document := make(map[string]any)
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	for path, value := range changes {
		at, parts := document, strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			at = at[p].(map[string]any)
		}
		if value == nil {
			delete(at, parts[len(parts)-1])
		} else {
			at[parts[len(parts)-1]] = value
		}
	}
	if data, err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
	return data
}

type object = map[string]any

func TestRefusedConfigs(t *testing.T) {
	for name, test := range map[string]struct {
		family  string
		changes map[string]any
		want    string
	}{
		"other family":         {"llama", object{"model_type": "mamba"}, `model_type "mamba" is not supported; supported are gemma3_text, llama, mistral, qwen2, qwen3`},
		"GPTQ":                 {"llama", object{"quantization_config": object{"quant_method": "gptq", "bits": 4}}, `weights packed by "gptq" are not supported; take the model in BF16`},
		"AWQ of other family":  {"llama", object{"model_type": "x", "quantization_config": object{"quant_method": "awq"}}, `packed by "awq"`},
		"yarn":                 {"llama", object{"rope_scaling": object{"type": "yarn", "factor": 2}}, `rope_type "yarn" is not supported; supported are default, linear and llama3`},
		"yarn in the new form": {"llama", object{"rope_parameters": object{"rope_type": "yarn"}}, `rope_type "yarn"`},
		"factor of zero":       {"llama", object{"rope_scaling.factor": 0}, "0 is not a positive number"},
		"equal frequencies":    {"llama", object{"rope_scaling.low_freq_factor": 4}, "are both 4"},
		"no layers":            {"llama", object{"num_hidden_layers": nil}, "num_hidden_layers is missing"},
		"two faults":           {"llama", object{"num_hidden_layers": nil, "hidden_size": nil}, "hidden_size is missing"},
		"negative":             {"llama", object{"hidden_size": -1}, "config.json"},
		"other activation":     {"llama", object{"hidden_act": "relu"}, `hidden_act: "relu" is not supported; in this architecture it is silu`},
		"other activation 2":   {"gemma3_text", object{"hidden_activation": "gelu"}, `"gelu" is not supported`},
		"softcap":              {"gemma3_text", object{"final_logit_softcapping": 30}, "found 30: capped logits"},
		"no window":            {"gemma3_text", object{"sliding_window": nil}, "sliding_window is missing"},
		"layers of a window":   {"qwen2", object{"layer_types": []string{"sliding_attention"}}, "every layer is full_attention"},
		"order of layers":      {"gemma3_text", object{"layer_types": []string{"full_attention", "sliding_attention"}}, "layer 0 is \"full_attention\", but a period of 2"},
		"order without period": {"gemma3_text", object{"sliding_window_pattern": nil, "layer_types": []string{"full_attention", "sliding_attention"}}, "layer 1 is \"sliding_attention\", but a period of 1"},
		"scale of queries":     {"gemma3_text", object{"query_pre_attn_scalar": 9}, "query_pre_attn_scalar: found 9, only 8"},
		"window":               {"qwen2", object{"use_sliding_window": true}, "use_sliding_window: true is not supported"},
		"other vocabulary":     {"llama", object{"vocab_size": 10}, `vocab_size: 10, but tensor "model.embed_tokens.weight" has 296 rows`},
		"odd heads":            {"llama", object{"head_dim": 7}, "cannot be cut into heads of 7"},
		"huge heads":           {"llama", object{"head_dim": 4294967295}, "head_dim: heads of 4294967295 values"},
		"untied without head":  {"qwen3", object{"tie_word_embeddings": false}, `tensor "lm_head.weight" is missing`},
		"tensors of a family":  {"qwen3", object{"model_type": "qwen2"}, `"model.layers.0.self_attn.q_norm.weight" has no place in the architecture qwen2`},
		"mixture of experts":   {"llama", object{"model_type": "mixtral"}, `"mixtral"`},
		"end beyond the vocab": {"llama", object{"eos_token_id": 99999}, "the end-of-text token is 99999"},
	} {
		path := folder(t, test.family, map[string][]byte{"config.json": edited(t, test.family+"/config.json", test.changes)})
		refused(t, name, path, test.want)
	}
}

func refused(t *testing.T, name, path, want string) {
	t.Helper()
	f, err := checkpoint.Open(path, checkpoint.Options{})
	if err == nil {
		_ = f.Close() // the test has failed
		t.Errorf("%s: opened, want an error with %q", name, want)
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want an error with %q", name, err, want)
	}
}

func TestRefusedTokenizers(t *testing.T) {
	const base = "tokenizer-llama-bpe.json"
	split := func(regex string) object {
		return object{"type": "Sequence", "pretokenizers": []object{{"type": "Split", "pattern": object{"Regex": regex}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}}}
	}
	for name, test := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"unigram":         {object{"model.type": "Unigram", "model.vocab": []any{}}, `type "Unigram" is not supported; supported is BPE, byte-level or`},
		"word pieces":     {object{"model.type": "WordPiece"}, `"WordPiece"`},
		"word ends":       {object{"model.end_of_word_suffix": "</w>"}, "end_of_word_suffix"},
		"lower case":      {object{"normalizer": object{"type": "Lowercase"}}, `normalizer: type "Lowercase" is not supported`},
		"no cutting":      {object{"pre_tokenizer": nil}, "pre_tokenizer: found"},
		"other cutting":   {object{"pre_tokenizer": object{"type": "Whitespace"}}, `"Whitespace"`},
		"space before":    {object{"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": true}}, "without a space put before"},
		"other rule":      {object{"pre_tokenizer": split(`\p{L}+`)}, `the expression "\\p{L}+" is not known; supported are those of GPT-2, SmolLM, Llama 3 and Qwen 2`},
		"merges and rule": {object{"model.ignore_merges": false}, "ignore_merges: false is not supported for the pre-tokenizer llama-bpe"},
		"id too large":    {object{"model.vocab.zzz": 296}, `token "zzz" has the id 296, but the model has 296`},
		"id far too big":  {object{"model.vocab.zzz": 4294967295}, "has the id 4294967295"},
		"id twice":        {object{"model.vocab.zzz": 5}, "have the same id, 5"},
		"id negative":     {object{"model.vocab.zzz": -1}, "vocab"},
		"merge of three":  {object{"model.merges": []any{[]string{"a", "b", "c"}}}, "merge 0"},
		"merge of spaces": {object{"model.merges": []any{[]string{"a ", "b"}}}, "merge 0"},
		"added twice":     {object{"added_tokens": []object{{"id": 1, "content": "<x>"}, {"id": 1, "content": "<y>"}}}, "have the same id, 1"},
	} {
		refused(t, name, folder(t, "llama", map[string][]byte{"tokenizer.json": edited(t, base, test.changes)}), test.want)
	}
}

func TestRefusedFolders(t *testing.T) {
	shard, err := os.ReadFile("testdata/llama/model-00001-of-00002.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	whole := func(header string, body int) []byte {
		data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		return append(append(data, header...), make([]byte, body)...)
	}
	index := func(file string) []byte {
		return edited(t, "llama/model.safetensors.index.json", object{"weight_map": object{"x": file}})
	}
	for name, test := range map[string]struct {
		changes map[string][]byte
		want    string
	}{
		"no config":         {map[string][]byte{"config.json": nil}, "config.json: not there; a folder of weights has"},
		"no tokenizer":      {map[string][]byte{"tokenizer.json": nil}, "tokenizers in other forms, such as tokenizer.model, are not supported"},
		"no weights":        {map[string][]byte{"model.safetensors.index.json": nil}, "such as pytorch_model.bin, are not supported"},
		"shard missing":     {map[string][]byte{"model-00002-of-00002.safetensors": nil}, "wasmeter pull goes on where it was"},
		"shard cut":         {map[string][]byte{"model-00001-of-00002.safetensors": shard[:len(shard)-1]}, "model-00001-of-00002.safetensors: tensor"},
		"shard of another":  {map[string][]byte{"model-00002-of-00002.safetensors": shard}, "the files are not of one model"},
		"index leads away":  {map[string][]byte{"model.safetensors.index.json": index("../x.safetensors")}, `"../x.safetensors" is not a file of the folder`},
		"index leads away2": {map[string][]byte{"model.safetensors.index.json": index("/etc/passwd")}, `"/etc/passwd" is not a file of the folder`},
		"empty index":       {map[string][]byte{"model.safetensors.index.json": []byte("{}")}, "names 0 files"},
		"bad index":         {map[string][]byte{"model.safetensors.index.json": []byte("[")}, "model.safetensors.index.json"},
		"integers":          {map[string][]byte{"model.safetensors": whole(`{"model.embed_tokens.weight":{"dtype":"I8","shape":[1,4],"data_offsets":[0,4]}}`, 4)}, "dtype I8 is not supported; supported are BF16, F16 and F32"},
		"three dimensions":  {map[string][]byte{"model.safetensors": whole(`{"model.embed_tokens.weight":{"dtype":"F16","shape":[1,1,2],"data_offsets":[0,4]}}`, 4)}, "neither a vector nor a matrix"},
		"strange tensor":    {map[string][]byte{"model.safetensors": whole(`{"vision.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)}, `"vision.weight" has no place in the architecture llama`},
		"no embedding":      {map[string][]byte{"model.safetensors": whole(`{"lm_head.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}`, 4)}, `"model.embed_tokens.weight" is missing`},
		"broken config":     {map[string][]byte{"config.json": []byte(`{"model_type": "llama"`)}, "config.json"},
		"config twice":      {map[string][]byte{"config.json": []byte(`{"model_type": "llama", "model_type": "qwen2"}`)}, "duplicate"},
	} {
		refused(t, name, folder(t, "llama", test.changes), test.want)
	}
	refused(t, "nothing", filepath.Join(t.TempDir(), "none"), "config.json: not there")
}

func TestRefusedSentencePiece(t *testing.T) {
	for name, test := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"other normalizer":  {object{"normalizer": object{"type": "Lowercase"}}, `normalizer: type "Lowercase" is not supported in a tokenizer with byte_fallback`},
		"no marks":          {object{"normalizer": nil}, "pre_tokenizer: type \"Split\", in this form"},
		"no marks, no cuts": {object{"normalizer": nil, "pre_tokenizer": nil}, "spaces are not replaced"},
		"cuts at spaces":    {object{"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}}, `pre_tokenizer: type "Metaspace", in this form`},
		"merge of nothing":  {object{"model.merges": []any{[]string{"q", "zq"}}}, "makes no token"},
	} {
		refused(t, name, folder(t, "llama", map[string][]byte{"tokenizer.json": edited(t, "tokenizer-gemma.json", test.changes)}), test.want)
	}
}

// Metaspace says in one node what Prepend and Replace say in two.
func TestMetaspace(t *testing.T) {
	for scheme, want := range map[string]string{"first": "true", "always": "true", "never": "false"} {
		data := edited(t, "tokenizer-gemma.json", object{"normalizer": nil, "pre_tokenizer": object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}})
		f := open(t, folder(t, "llama", map[string][]byte{"tokenizer.json": data}), checkpoint.Options{})
		if got := f.Describe("tokenizer.ggml.add_space_prefix"); got != want {
			t.Errorf("prepend_scheme %s: a space is put before a text: %s, want %s", scheme, got, want)
		}
	}
}

// The new forms of the configuration, rope_parameters of transformers 5 and
// layer_types, say the same as the old ones.
func TestNewForms(t *testing.T) {
	want := readTruth(t).Logits
	for family, changes := range map[string]object{
		"llama": {"rope_theta": nil, "rope_scaling": nil, "rope_parameters": object{
			"rope_theta": 10000, "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}},
		"qwen2": {"rope_theta": nil, "rope_parameters": object{"rope_theta": 1000000, "rope_type": "default"}},
		"gemma3_text": {"sliding_window_pattern": nil, "layer_types": []string{"sliding_attention", "full_attention"}, "rope_theta": nil, "rope_scaling": nil, "rope_local_base_freq": nil, "rope_parameters": object{
			"full_attention":    object{"rope_theta": 1000000, "rope_type": "linear", "factor": 8},
			"sliding_attention": object{"rope_theta": 10000, "rope_type": "default"}}},
	} {
		f := open(t, folder(t, family, map[string][]byte{"config.json": edited(t, family+"/config.json", changes)}), checkpoint.Options{})
		got := logits(t, f, backendtest.NewReference(64), want[family].IDs)
		plain := logits(t, open(t, folder(t, family, nil), checkpoint.Options{}), backendtest.NewReference(64), want[family].IDs)
		for pos := range got {
			for i := range got[pos] {
				if got[pos][i] != plain[pos][i] {
					t.Fatalf("%s: logit %d of position %d is %g, want %g", family, i, pos, got[pos][i], plain[pos][i])
				}
			}
		}
	}
}

// FuzzOpen puts hostile documents into a folder: an error or a model, but neither
// a panic nor memory that the files do not justify.
func FuzzOpen(f *testing.F) {
	names := []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json"}
	seeds := []string{"llama/config.json", "tokenizer-llama-bpe.json", "llama/tokenizer_config.json", "llama/generation_config.json", "llama/model.safetensors.index.json"}
	for i, seed := range seeds {
		f.Add(uint8(i), edited(f, seed, nil))
		f.Add(uint8(i), []byte("{}"))
	}
	f.Add(uint8(1), edited(f, "tokenizer-gemma.json", nil))
	f.Add(uint8(1), edited(f, "tokenizer-llama2.json", nil))
	f.Add(uint8(0), edited(f, "llama/config.json", object{"num_hidden_layers": 4294967295, "num_attention_heads": 0}))
	whole := folder(f, "llama", nil)
	originals := make(map[string][]byte)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			f.Fatal(err)
		}
		originals[name] = data
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		documents := maps.Clone(originals)
		documents[names[int(which)%len(names)]] = data
		for name, data := range documents {
			if err := os.WriteFile(filepath.Join(whole, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := checkpoint.Open(whole, checkpoint.Options{})
		if err != nil {
			return
		}
		defer file.Close() // it was only read
		if _, err := tokenizer.FromGGUF(file); err != nil {
			return
		}
		b := backendtest.NewReference(4)
		if m, err := model.Load(file, b); err == nil {
			_ = m.Close() // it was only loaded
		}
	})
}
