package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// Options say how a folder is read.
type Options struct {
	// Quantize converts matrices to Q8_0 while they load, which takes half the
	// memory of 16 bits.
	Quantize bool
	// Workers is the number of tensors that are converted at once, at least one.
	Workers int
}

// The bounds on files that are read whole, several times the largest known.
const (
	maxConfig    = 4 << 20   // bytes
	maxTokenizer = 128 << 20 // bytes
)

// configFile is what makes a folder one of weights.
const configFile = "config.json"

// IsFolder tells whether path is a folder, whatever is in it.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Open reads the folder at path. The files must not be changed while it is open:
// their pages are read on first use.
func Open(path string, o Options) (_ *gguf.File, err error) {
	c, a, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	weights, err := openWeights(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, weights.close())
		}
	}()
	tensors, err := a.views(weights, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	metadata, err := c.metadata(a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, configFile), err)
	}
	vocabulary, err := readVocabulary(path, c)
	if err != nil {
		return nil, err
	}
	// What takes long comes last: faults of the small files are told at once.
	if err := a.changeAll(tensors, weights, c, o); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if t, ok := c.ropeFactors(orDefault(c.RopeTheta, a.ropeTheta)); ok {
		tensors = append(tensors, t)
	}
	return gguf.Assemble(append(metadata, vocabulary...), tensors, weights.close)
}

// Check tells whether the documents of a folder are of a model that can be read,
// before its weights are there.
func Check(path string) error {
	c, a, err := readConfig(path)
	if err != nil {
		return err
	}
	if _, err := c.metadata(a); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(path, configFile), err)
	}
	return checkTokenizer(path)
}

// readJSON reads one of a folder's documents. Of one that is not there, found is
// false.
func readJSON(folder, name string, most int64, into any) (found bool, err error) {
	data, err := readFile(folder, name, most)
	if data == nil || err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return true, fmt.Errorf("%s: %w", filepath.Join(folder, name), err)
	}
	return true, nil
}

// readFile reads a file of the folder, nil if it is not there.
func readFile(folder, name string, most int64) ([]byte, error) {
	path := filepath.Join(folder, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", path, most)
	}
	return os.ReadFile(path)
}
