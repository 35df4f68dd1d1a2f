package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/engine/checkpoint"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// modelsDir is where make model puts a file, and where serve looks for one.
const modelsDir = "models"

// findModel gives the one model file below modelsDir.
func findModel() (string, error) {
	files, err := filepath.Glob(filepath.Join(modelsDir, "*.gguf"))
	if err != nil {
		return "", fmt.Errorf("look for a model: %w", err)
	}
	switch len(files) {
	case 0:
		return "", fmt.Errorf("no model: %s/ has no .gguf file; run make model, or name one: wasmeter serve path/to/model.gguf", modelsDir)
	case 1:
		return files[0], nil
	}
	return "", fmt.Errorf("which model? %s/ has %s; name one: wasmeter serve %s", modelsDir, strings.Join(base(files), ", "), files[0])
}

func base(paths []string) []string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return names
}

// openModel opens a GGUF file or a folder of safetensors. Quantizing takes
// memory for the result and makes what is computed of it fast.
func openModel(path string, quantize bool) (*gguf.File, error) {
	workers := runtime.GOMAXPROCS(0)
	if checkpoint.IsFolder(path) {
		return checkpoint.Open(path, checkpoint.Options{Quantize: quantize, Workers: workers})
	}
	file, err := gguf.Open(path)
	if err != nil || !quantize {
		return file, err
	}
	if err := file.Quantize(workers); err != nil {
		_ = file.Close() // the first error is the one to tell
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// modelName is the name of a file that was given none: the file's own, without
// .gguf and without the word for its weights, as people say it:
// SmolLM2-135M-Instruct for SmolLM2-135M-Instruct.Q4_1.gguf. A folder's name is
// whole.
func modelName(path string) string {
	if checkpoint.IsFolder(path) {
		if whole, err := filepath.Abs(path); err == nil { // of .
			path = whole
		}
		return filepath.Base(path)
	}
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	if i := strings.LastIndexAny(name, ".-"); i > 0 && weightWord.MatchString(name[i+1:]) {
		return name[:i]
	}
	return name
}

// weightWord is how file names say the type of their weights: Q4_1, q4_k_m,
// IQ2_XS, F16, BF16.
var weightWord = regexp.MustCompile(`(?i)^(i?q[1-9](_[0-9a-z]+)*|b?f16|f32)$`)

func newModel(t terminal) *cobra.Command {
	command := &cobra.Command{
		Use:   "model",
		Short: "Look into model files",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(&cobra.Command{
		Use:     "info FILE|FOLDER",
		Short:   "Print the metadata and tensors of a GGUF file or a folder of safetensors",
		Example: "  wasmeter model info models/SmolLM2-135M-Instruct.Q4_1.gguf",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return printModel(t, args[0])
		},
	})
	return command
}

// printModel lists what a file says of itself, and sums its tensors by type.
func printModel(t terminal, path string) error {
	f, err := openModel(path, false)
	if err != nil {
		return fmt.Errorf("read model: %w", err)
	}
	defer f.Close() // it was only read
	var b strings.Builder
	kind := fmt.Sprintf("GGUF version %d", f.Version)
	if checkpoint.IsFolder(path) {
		kind = "a folder of safetensors, in the words of GGUF"
	}
	fmt.Fprintf(&b, "%s: %s\n\n", path, kind)
	for _, key := range f.Keys() {
		fmt.Fprintf(&b, "%-42s %s\n", key, printable(f.Describe(key)))
	}
	type total struct {
		tensors  int
		elements uint64
		bytes    int
	}
	totals := make(map[gguf.DType]*total)
	var order []gguf.DType
	for _, tensor := range f.Tensors {
		if totals[tensor.Type] == nil {
			totals[tensor.Type] = &total{}
			order = append(order, tensor.Type)
		}
		sum := totals[tensor.Type]
		sum.tensors++
		sum.elements += tensor.Elements()
		sum.bytes += len(tensor.Data)
	}
	b.WriteString("\n")
	for _, dtype := range order {
		sum := totals[dtype]
		fmt.Fprintf(&b, "%-8s %4d tensors, %11d values, %s\n", dtype, sum.tensors, sum.elements, bytesText(int64(sum.bytes)))
	}
	_, err = fmt.Fprint(t.out, b.String())
	return err
}

// printable keeps a file's text on one line and harmless to a terminal.
func printable(text string) string {
	const most = 100 // characters
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// modelSize is the size in bytes of a file or of a folder's weights, 0 if it
// can't be known.
func modelSize(path string) (size int64) {
	files := []string{path}
	if checkpoint.IsFolder(path) {
		files, _ = filepath.Glob(filepath.Join(path, "*.safetensors")) // the pattern is a good one
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}
