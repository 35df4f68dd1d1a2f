package hub

import (
	"slices"
	"strings"
	"testing"
)

func filesOf(names string) []File {
	var files []File
	for name := range strings.FieldsSeq(names) {
		files = append(files, File{Path: name, Size: 1 << 20})
	}
	return files
}

func TestChoose(t *testing.T) {
	const (
		quants = "README.md m-Q8_0.gguf m-Q4_K_M.gguf m.Q4_1.gguf mmproj-m-f16.gguf m.imatrix.gguf config.json"
		split  = "Q8_0/m-Q8_0-00001-of-00002.gguf Q8_0/m-Q8_0-00002-of-00002.gguf m-Q4_0.gguf one-Q6_K-00001-of-00001.gguf"
		folder = "config.json tokenizer.json model.safetensors model.safetensors.index.json x/model.safetensors adapter.safetensors"
	)
	for _, test := range []struct {
		files, want string
		chosen      string // or, after "!", parts of the error
	}{
		{quants, "", "m-Q4_K_M.gguf"},
		{quants, "Q4_K_M", "m-Q4_K_M.gguf"},
		{quants, "q8_0", "m-Q8_0.gguf"},
		{quants, "Q4_1", "m.Q4_1.gguf"},
		{quants, "m.Q4_1.gguf", "m.Q4_1.gguf"},
		{quants, "M-q8_0.GGUF", "m-Q8_0.gguf"},
		{quants, "m-Q8_0", "m-Q8_0.gguf"},
		{quants, "K_M", `!no GGUF file "K_M"`}, // part of a word
		{quants, "Q5_K_M", `!no GGUF file "Q5_K_M"|m-Q8_0.gguf (1.0 MiB)|m-Q4_K_M.gguf`},
		{quants, "mmproj-m-f16.gguf", "!no GGUF file"},
		{"m-Q8_0.gguf m-Q4_0.gguf", "", "m-Q8_0.gguf"},
		{"a-Q2_K.gguf b-Q3_K_S.gguf", "", "!which file?|org/repo:a-Q2_K.gguf|b-Q3_K_S.gguf (1.0 MiB)"},
		{"a-Q2_K.gguf", "", "a-Q2_K.gguf"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf", "", "!which file?"},
		{"a-Q4_K_M.gguf b-Q4_K_M.gguf", "Q4_K_M", "!may be several files"},
		{split, "", "m-Q4_0.gguf"},
		{split, "Q8_0", "!m-Q8_0-00001-of-00002.gguf is one of 2 parts|llama-gguf-split --merge|m-Q4_0.gguf"},
		{split, "Q6_K", "one-Q6_K-00001-of-00001.gguf"},
		{"m-00001-of-00003.gguf m-00002-of-00003.gguf m-00003-of-00003.gguf", "", "!one of 3 parts"},
		{folder, "", "config.json tokenizer.json model.safetensors.index.json model.safetensors"},
		{folder, "Q8_0", "!the repository has none at all"},
		{folder + " m-Q8_0.gguf", "safetensors", "config.json tokenizer.json model.safetensors.index.json model.safetensors"},
		{folder + " m-Q8_0.gguf", "", "m-Q8_0.gguf"},
		{"config.json model-00002-of-00002.safetensors model-00001-of-00002.safetensors", "", "config.json model-00002-of-00002.safetensors model-00001-of-00002.safetensors"},
		{"config.json pytorch_model.bin", "", "!neither GGUF files nor|pytorch_model.bin"},
		{"model.safetensors", "", "!neither GGUF files nor config.json"},
		{"", "", "!neither GGUF files nor"},
	} {
		chosen, isFolder, err := choose(filesOf(test.files), test.want)
		if wants, refused := strings.CutPrefix(test.chosen, "!"); refused {
			for part := range strings.SplitSeq(wants, "|") {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%q of %s: got %v, %v; want an error with %q", test.want, test.files, chosen, err, part)
				}
			}
			continue
		}
		var names []string
		for _, f := range chosen {
			names = append(names, f.Path)
		}
		if err != nil || !slices.Equal(names, strings.Fields(test.chosen)) || isFolder != !strings.HasSuffix(test.chosen, "gguf") {
			t.Errorf("%q of %s: got %q, folder %t, %v; want %s", test.want, test.files, names, isFolder, err, test.chosen)
		}
	}
}
