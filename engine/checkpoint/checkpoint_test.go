package checkpoint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/checkpoint"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// truth is testdata/truth.json; make.py beside it says whence.
type truth struct {
	Tokens map[string][]struct {
		Text string
		IDs  []int32
	}
	Logits map[string]struct {
		IDs    []int32
		Last   []float64 // logits of the last position
		Argmax []int     // of each position
	}
	Q8_0 map[string]string // SHA-256 of the llama folder's matrices
}

func readTruth(t *testing.T) truth {
	t.Helper()
	data, err := os.ReadFile("testdata/truth.json")
	if err != nil {
		t.Fatal(err)
	}
	var all truth
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// folder copies a family's folder and puts a tokenizer beside it. changes replace
// files, with nil remove them.
func folder(t testing.TB, family string, changes map[string][]byte) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(filepath.Join("testdata", family))); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/tokenizer-llama-bpe.json")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"tokenizer.json": data}
	maps.Copy(files, changes)
	for name, data := range files {
		path := filepath.Join(to, name)
		if data == nil {
			err = os.RemoveAll(path)
		} else {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func open(t *testing.T, path string, o checkpoint.Options) *gguf.File {
	t.Helper()
	f, err := checkpoint.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func openGGUF(t *testing.T) *gguf.File {
	t.Helper()
	f, err := gguf.Open("testdata/llama.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it was only read
	return f
}

// logits runs a prompt as one batch and returns each position's logits.
func logits(t *testing.T, f *gguf.File, b backend.Backend, ids []int32) [][]float32 {
	t.Helper()
	m, err := model.Load(f, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	const blockSize = 16
	batch, blocks := &backend.Batch{}, int32(0)
	backendtest.Append(batch, ids, 0, backendtest.Blocks(&blocks, len(ids), blockSize), blockSize)
	for r := range ids {
		batch.Sample = append(batch.Sample, int32(r))
	}
	if err := m.Reserve(int(blocks), blockSize); err != nil {
		t.Fatal(err)
	}
	all, err := m.Forward(batch)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for row := range slices.Chunk(all, m.Shape().Vocab) {
		rows = append(rows, slices.Clone(row))
	}
	return rows
}

func newCPU(t *testing.T) backend.Backend {
	t.Helper()
	b, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The folder is the file: same keys, same tensors, same logits to the bit, with
// BF16, F16 and F32 matrices.
func TestFolderEqualsGGUF(t *testing.T) {
	ids := readTruth(t).Logits["llama"].IDs
	want := openGGUF(t)
	for _, workers := range []int{1, 3} {
		got := open(t, folder(t, "llama", nil), checkpoint.Options{Workers: workers})
		for _, key := range want.Keys() {
			if g, w := got.Describe(key), want.Describe(key); g != w {
				t.Errorf("%s is %s, want %s", key, g, w)
			}
		}
		for _, key := range got.Keys() {
			if want.Describe(key) == "" {
				t.Errorf("%s is %s, which llama.gguf doesn't have", key, got.Describe(key))
			}
		}
		for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.merges"} {
			g, err := got.Texts(key)
			if w, err2 := want.Texts(key); err != nil || err2 != nil || !slices.Equal(g, w) {
				t.Errorf("%s: %v, %v\n%q\nwant\n%q", key, err, err2, g, w)
			}
		}
		g, _ := got.Ints("tokenizer.ggml.token_type")
		if w, err := want.Ints("tokenizer.ggml.token_type"); err != nil || !slices.Equal(g, w) {
			t.Errorf("types of tokens: %v, want %v", g, w)
		}
		if len(got.Tensors) != len(want.Tensors) {
			t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
		}
		for _, w := range want.Tensors {
			g, ok := got.Tensor(w.Name)
			if !ok || g.Type != w.Type || !slices.Equal(g.Shape, w.Shape) || !slices.Equal(g.Data, w.Data) {
				t.Errorf("tensor %s: found %t, %s %d, want %s %d; bytes equal: %t", w.Name, ok, g.Type, g.Shape, w.Type, w.Shape, slices.Equal(g.Data, w.Data))
			}
		}
		gotLogits, wantLogits := logits(t, got, newCPU(t), ids), logits(t, want, newCPU(t), ids)
		for pos := range wantLogits {
			if !slices.Equal(gotLogits[pos], wantLogits[pos]) {
				t.Errorf("%d workers: logits of position %d differ: %g …, want %g …", workers, pos, gotLogits[pos][:3], wantLogits[pos][:3])
			}
		}
	}
}

// Q8_0 is that of the Python package gguf, byte for byte.
func TestQuantize(t *testing.T) {
	all := readTruth(t)
	f := open(t, folder(t, "llama", nil), checkpoint.Options{Quantize: true, Workers: 2})
	n := 0
	for _, tensor := range f.Tensors {
		if len(tensor.Shape) == 1 {
			if tensor.Type != gguf.F32 {
				t.Errorf("vector %s is %s, want F32", tensor.Name, tensor.Type)
			}
			continue
		}
		n++
		sum := sha256.Sum256(tensor.Data)
		if got := hex.EncodeToString(sum[:]); tensor.Type != gguf.Q8_0 || got != all.Q8_0[tensor.Name] {
			t.Errorf("%s is %s with hash %s, want Q8_0 with %s", tensor.Name, tensor.Type, got, all.Q8_0[tensor.Name])
		}
	}
	if n != len(all.Q8_0) {
		t.Errorf("%d matrices, want %d", n, len(all.Q8_0))
	}
	// Rows that are not whole blocks stay as they are.
	for _, tensor := range open(t, folder(t, "qwen2", nil), checkpoint.Options{Quantize: true}).Tensors {
		want := gguf.BF16
		if len(tensor.Shape) == 1 {
			want = gguf.F32
		} else if tensor.Shape[0]%32 == 0 {
			want = gguf.Q8_0
		}
		if tensor.Type != want {
			t.Errorf("%s %d is %s, want %s", tensor.Name, tensor.Shape, tensor.Type, want)
		}
	}
}

// The logits of each family are those of a forward pass in numpy, which follows
// transformers. The reference backend sums in float32: its error is far below
// the tolerance, that of a wrong permutation, rope or norm far above.
func TestLogitsOfFamilies(t *testing.T) {
	for family, want := range readTruth(t).Logits {
		t.Run(family, func(t *testing.T) {
			got := logits(t, open(t, folder(t, family, nil), checkpoint.Options{}), backendtest.NewReference(64), want.IDs)
			last := got[len(got)-1]
			if len(last) != len(want.Last) {
				t.Fatalf("%d logits, want %d", len(last), len(want.Last))
			}
			for i, w := range want.Last {
				if d := math.Abs(float64(last[i]) - w); !(d <= 2e-4) {
					t.Errorf("logit %d is %.5f, want %.5f", i, last[i], w)
				}
			}
			for pos, row := range got {
				if row[want.Argmax[pos]] != slices.Max(row) {
					t.Errorf("position %d: token %d has %g, but the largest is %g", pos, want.Argmax[pos], row[want.Argmax[pos]], slices.Max(row))
				}
			}
		})
	}
}

// Ids are those of the library tokenizers, which wrote the files.
func TestTokens(t *testing.T) {
	for name, samples := range readTruth(t).Tokens {
		data, err := os.ReadFile("testdata/tokenizer-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		// The ids of ends are those of the other vocabulary.
		changes := map[string][]byte{
			"tokenizer.json":         data,
			"generation_config.json": []byte(`{"eos_token_id": 2}`),
			"config.json":            edited(t, "llama/config.json", object{"eos_token_id": nil}),
		}
		tok, err := tokenizer.FromGGUF(open(t, folder(t, "llama", changes), checkpoint.Options{}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, s := range samples {
			if got := tok.Encode(nil, s.Text, tokenizer.Parsed); !slices.Equal(got, s.IDs) {
				t.Errorf("%s: %q is %v, want %v", name, s.Text, got, s.IDs)
			}
		}
	}
}

// Every id that the generation config lists ends a generation.
func TestEnds(t *testing.T) {
	f := open(t, folder(t, "llama", map[string][]byte{"generation_config.json": []byte(`{"eos_token_id": [1, 2, 3, 4, 5]}`)}), checkpoint.Options{})
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int32
	for id := range int32(tok.Size()) {
		if tok.EOG(id) {
			ends = append(ends, id)
		}
	}
	turn, _ := tok.Lookup("<|turn|>")
	end, _ := tok.Lookup("<|end|>")
	if want := []int32{1, 2, 3, 4, 5, end, turn}; !slices.Equal(ends, want) {
		t.Errorf("generations end with %v, want %v", ends, want)
	}
	if eos, ok := tok.EOS(); !ok || eos != turn {
		t.Errorf("texts end with %d, want %d, <|turn|>", eos, turn)
	}
	if bos, ok := tok.BOS(); !ok || !tok.AddBOS() || string(tok.Piece(bos)) != "<|begin|>" {
		t.Errorf("texts begin with %d, added %t", bos, tok.AddBOS())
	}
}

// Mistral is Llama; its window, where it has one, bounds the context.
func TestMistral(t *testing.T) {
	for window, want := range map[any]string{nil: "256", 100: "100", 1000: "256"} {
		data := edited(t, "llama/config.json", object{"model_type": "mistral", "sliding_window": window})
		f := open(t, folder(t, "llama", map[string][]byte{"config.json": data}), checkpoint.Options{})
		if got, name := f.Describe("llama.context_length"), f.Describe("general.architecture"); got != want || name != `"llama"` {
			t.Errorf("a window of %v: context of %s, want %s, architecture %s", window, got, want, name)
		}
	}
}

func TestChatTemplate(t *testing.T) {
	for name, test := range map[string]struct {
		changes map[string][]byte
		want    string
	}{
		"file before the configuration": {map[string][]byte{"chat_template.jinja": []byte("of the file")}, "of the file"},
		"document":                      {map[string][]byte{"chat_template.json": []byte(`{"chat_template": "of the document"}`)}, "of the document"},
		"default of several":            {map[string][]byte{"tokenizer_config.json": []byte(`{"chat_template": [{"name": "rag", "template": "a"}, {"name": "default", "template": "b"}]}`)}, "b"},
		"none":                          {map[string][]byte{"tokenizer_config.json": nil}, ""},
	} {
		got, _ := open(t, folder(t, "llama", test.changes), checkpoint.Options{}).Text("tokenizer.chat_template")
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
