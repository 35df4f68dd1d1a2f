package hub

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// safetensorsWord asks for the folder of safetensors of a repository that has
// GGUF files too.
const safetensorsWord = "safetensors"

// preferred are the quantisations taken where several files are there and none
// is named: the usual compromise, then the nearest that there may be.
var preferred = []string{"Q4_K_M", "Q8_0", "Q4_0", "Q4_1"}

// partPattern is how llama-gguf-split names the parts of a file.
var partPattern = regexp.MustCompile(`(?i)-(\d{5})-of-(\d{5})\.gguf$`)

// choose picks the files of a model: one GGUF file, or those of a folder of
// safetensors.
func choose(files []File, want string) (chosen []File, folder bool, err error) {
	ggufs := ggufFiles(files)
	isWhole := strings.EqualFold(want, safetensorsWord)
	if isWhole || want == "" && len(ggufs) == 0 {
		chosen, err = checkpointFiles(files)
		return chosen, true, err
	}
	var f File
	if want == "" {
		f, err = preferredFile(ggufs)
	} else {
		f, err = namedFile(ggufs, want)
	}
	if err != nil {
		return nil, false, err
	}
	if n := parts(f); n > 1 {
		return nil, false, fmt.Errorf("%s is one of %d parts: split files are not supported; choose one that is whole%s, or join the parts with llama-gguf-split --merge and serve the result",
			f.Path, n, listed(wholeFiles(ggufs)))
	}
	return []File{f}, false, nil
}

// ggufFiles leaves out what belongs to a model without being one: projectors of
// images and importance matrices. Of a split file, its first part stands for all.
func ggufFiles(files []File) []File {
	var out []File
	for _, f := range files {
		name := strings.ToLower(path.Base(f.Path))
		if !strings.HasSuffix(name, ".gguf") || strings.Contains(name, "mmproj") || strings.Contains(name, "imatrix") {
			continue
		}
		if m := partPattern.FindStringSubmatch(name); m != nil && m[1] != "00001" {
			continue
		}
		out = append(out, f)
	}
	return out
}

// parts is in how many files a model is.
func parts(f File) int {
	m := partPattern.FindStringSubmatch(f.Path)
	if m == nil {
		return 1
	}
	n, _ := strconv.Atoi(m[2]) // the pattern has five digits
	return n
}

func wholeFiles(ggufs []File) []File {
	return slices.DeleteFunc(slices.Clone(ggufs), func(f File) bool { return parts(f) > 1 })
}

func preferredFile(ggufs []File) (File, error) {
	if len(ggufs) == 1 {
		return ggufs[0], nil
	}
	for _, word := range preferred {
		if matches := ofQuantisation(wholeFiles(ggufs), word); len(matches) == 1 {
			return matches[0], nil
		}
	}
	return File{}, fmt.Errorf("which file? name one, as in org/repo:%s%s", path.Base(ggufs[0].Path), listed(ggufs))
}

// namedFile finds a file by its path, its name with or without .gguf, or its
// quantisation, whatever the case of the letters.
func namedFile(ggufs []File, want string) (File, error) {
	for _, is := range []func(File) bool{
		func(f File) bool { return f.Path == want },
		func(f File) bool { return strings.EqualFold(f.Path, want) },
		func(f File) bool { return strings.EqualFold(path.Base(f.Path), want) },
		func(f File) bool { return strings.EqualFold(stem(f), want) },
	} {
		if i := slices.IndexFunc(ggufs, is); i >= 0 {
			return ggufs[i], nil
		}
	}
	switch matches := ofQuantisation(ggufs, want); {
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		return File{}, fmt.Errorf("%q may be several files: name one%s", want, listed(matches))
	case len(ggufs) == 0:
		return File{}, fmt.Errorf("no GGUF file %q: the repository has none at all; leave the colon out to take its safetensors", want)
	}
	return File{}, fmt.Errorf("no GGUF file %q%s", want, listed(ggufs))
}

// stem is a file's name without folder, ending and the word for its part.
func stem(f File) string {
	name := partPattern.ReplaceAllString(path.Base(f.Path), "")
	if strings.HasSuffix(strings.ToLower(name), ".gguf") {
		name = name[:len(name)-len(".gguf")]
	}
	return name
}

// ofQuantisation gives the files whose names end with a word after a dot or a
// dash: Model.Q4_1.gguf, model-q4_k_m.gguf.
func ofQuantisation(ggufs []File, word string) []File {
	return slices.DeleteFunc(slices.Clone(ggufs), func(f File) bool {
		name := strings.ToLower(stem(f))
		before, ok := strings.CutSuffix(name, strings.ToLower(word))
		return !ok || before != "" && !strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "-")
	})
}

// listed names files for an error, with their sizes.
func listed(files []File) string {
	const most = 30
	var b strings.Builder
	for i, f := range files {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more", len(files)-most)
			break
		}
		if i == 0 {
			b.WriteString("; there are:")
		}
		fmt.Fprintf(&b, "\n  %s (%s", f.Path, SizeText(f.Size))
		if n := parts(f); n > 1 {
			fmt.Fprintf(&b, ", the first of %d parts", n)
		}
		b.WriteString(")")
	}
	return b.String()
}

// shardPattern is how the weights of a folder are named, whole or in shards.
var shardPattern = regexp.MustCompile(`^model(-\d{5}-of-\d{5})?\.safetensors$`)

// checkpointFiles gives what a folder of safetensors needs to be served, the
// small files first: a fault in them is then known before the weights are here.
func checkpointFiles(files []File) ([]File, error) {
	var small, weights []File
	config, whole, others := false, false, []File(nil)
	for _, f := range files {
		switch f.Path {
		case "config.json":
			config = true
			small = append(small, f)
		case "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
			"chat_template.jinja", "chat_template.json", "tokenizer.model", "model.safetensors.index.json":
			small = append(small, f)
		default:
			if shardPattern.MatchString(f.Path) {
				whole = whole || f.Path == "model.safetensors"
				weights = append(weights, f)
			} else if strings.HasSuffix(f.Path, ".safetensors") || strings.HasSuffix(f.Path, ".bin") || strings.HasSuffix(f.Path, ".pth") {
				others = append(others, f)
			}
		}
	}
	if !config || len(weights) == 0 {
		return nil, fmt.Errorf("the repository has neither GGUF files nor config.json with model.safetensors; those can be served%s", listed(others))
	}
	if whole { // the shards, if there are any too, are the same weights again
		weights = slices.DeleteFunc(weights, func(f File) bool { return f.Path != "model.safetensors" })
	}
	return append(small, weights...), nil
}
