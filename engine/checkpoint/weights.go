package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/safetensors"
)

// The names of a folder's weights.
const (
	wholeFile = "model.safetensors"
	indexFile = "model.safetensors.index.json"
	maxShards = 10_000
)

// weights are the tensors of a folder, all its files together.
type weights struct {
	tensors []safetensors.Tensor
	// releases give back the mapped files, and the memory of changed tensors.
	releases []func() error
}

// openWeights maps the folder's files: the one that holds all, or those that the
// index names.
func openWeights(folder string) (w *weights, err error) {
	w = &weights{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if _, err := os.Stat(filepath.Join(folder, wholeFile)); err == nil {
		return w, w.open(filepath.Join(folder, wholeFile), nil)
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	found, err := readJSON(folder, indexFile, maxTokenizer, &index)
	if err != nil {
		return w, err
	}
	if !found {
		return w, fmt.Errorf("%s: neither %s nor %s is there; weights in other forms, such as pytorch_model.bin, are not supported: convert them to safetensors", folder, wholeFile, indexFile)
	}
	shards := make(map[string][]string) // names of tensors by file
	for tensor, file := range index.Map {
		// An index names files beside it, and no others.
		if filepath.Base(file) != file || !filepath.IsLocal(file) {
			return w, fmt.Errorf("%s: %.100q is not a file of the folder", filepath.Join(folder, indexFile), file)
		}
		shards[file] = append(shards[file], tensor)
	}
	if len(shards) == 0 || len(shards) > maxShards {
		return w, fmt.Errorf("%s: names %d files, want 1 to %d", filepath.Join(folder, indexFile), len(shards), maxShards)
	}
	var names []string
	for name := range shards {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := w.open(filepath.Join(folder, name), shards[name]); err != nil {
			return w, err
		}
	}
	return w, nil
}

// open maps a file and takes the tensors that an index wants of it, all without
// an index.
func (w *weights) open(path string, wanted []string) error {
	data, unmap, err := gguf.Map(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; the index names it: fetch the folder again, wasmeter pull goes on where it was", err)
	}
	if err != nil {
		return err
	}
	w.releases = append(w.releases, unmap)
	f, err := safetensors.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if wanted == nil {
		w.tensors = append(w.tensors, f.Tensors...)
		return nil
	}
	slices.Sort(wanted)
	taken := 0
	for _, t := range f.Tensors {
		if _, ok := slices.BinarySearch(wanted, t.Name); ok {
			w.tensors = append(w.tensors, t)
			taken++
		}
	}
	if taken != len(wanted) {
		return fmt.Errorf("%s: has %d of the %d tensors that the index says: the files are not of one model", path, taken, len(wanted))
	}
	return nil
}

// close gives everything back.
func (w *weights) close() error {
	var faults []error
	for _, release := range w.releases {
		faults = append(faults, release())
	}
	w.releases = nil
	return errors.Join(faults...)
}
