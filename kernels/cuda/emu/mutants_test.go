//go:build cuda && cgo && linux

package emu_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
	"github.com/wasmeter/wasmeter/kernels/cuda/suite"
)

// mutant is a fault that is put into the kernels, which the suite must find on the
// checked emulator. old stands exactly once in the file.
type mutant struct {
	name     string
	file     string
	old, new string
	unit     string // the .cu file, without its ending, that is compiled with it
	kernel   string // the suite's cases of kernels whose names begin with it must find it
	settings string // of the emulator: CUDA_EMU
}

var mutants = []mutant{
	{
		name: "a missing barrier between a sum's halves", file: "common.cuh", unit: "norm", kernel: "rms_norm",
		old: "partial[threadIdx.x >> 5] = x;\n  __syncthreads();",
		new: "partial[threadIdx.x >> 5] = x;",
	},
	{
		name: "a missing bound at a row's end", file: "norm.cu", unit: "norm", kernel: "rms_norm",
		old: "i < cols; i += blockDim.x) {\n      const float out",
		new: "i <= cols; i += blockDim.x) {\n      const float out",
	},
	{
		name: "an element too many", file: "copy.cu", unit: "copy", kernel: "silu_up",
		old: "i < n; i += step) y[i] = f(a[i], b[i]);",
		new: "i <= n; i += step) y[i] = f(a[i], b[i]);",
	},
	{
		name: "the block of the next slot", file: "rope.cu", unit: "rope", kernel: "finish_heads",
		old: "(size_t)(slot / block_size) * kv_heads",
		new: "(size_t)((slot + 1) / block_size) * kv_heads",
	},
	{
		name: "tokens that are not looked at", file: "embed.cu", unit: "embed", kernel: "embed",
		old: "token < 0 || token >= rows",
		new: "token < 0",
	},
	{
		name: "a tile used before all have copied", file: "matmul_tile.cuh", unit: "matmul_tile", kernel: "matmul_tile",
		old: "    __syncthreads();  // the step has come for all\n",
		new: "",
	},
	{
		name: "a tile overwritten while others read", file: "matmul_tile.cuh", unit: "matmul_tile", kernel: "matmul_tile",
		old: "    __syncthreads();  // and may be overwritten\n",
		new: "",
	},
	{
		name: "a wait for too few copies", file: "matmul_tile.cuh", unit: "matmul_tile", kernel: "matmul_tile",
		old: "      cp_async_wait<1>();",
		new: "      cp_async_wait<2>();",
	},
	{
		name: "roots that are another warp's", file: "matmul_tile.cuh", unit: "matmul_tile", kernel: "matmul_tile",
		old: "    roots[token] = rsqrtf(sum / cols + eps);\n  }\n  __syncthreads();\n",
		new: "    roots[token] = rsqrtf(sum / cols + eps);\n  }\n",
	},
	{
		name: "squares of one row of a lane's two", file: "matmul_tile.cuh", unit: "matmul_tile", kernel: "matmul_tile",
		old: "square[j][c & 1] += y * y;",
		new: "square[j][c & 1] = y * y;",
	},
	{
		name: "a wrong mask", file: "matmul_tile.cuh", unit: "matmul_skinny", kernel: "matmul_skinny",
		old: "s += __shfl_xor_sync(0xffffffffu, s, 2);",
		new: "s += __shfl_xor_sync(0x0fffffffu, s, 2);",
	},
	{
		name: "the last block's flag read at once", file: "matmul.cuh", unit: "matmul_vector", kernel: "matmul_vector",
		old: "  __syncthreads();\n  if (!last) return false;",
		new: "  if (!last) return false;",
	},
	{
		name: "a chunk overwritten while others read", file: "matmul_vector.cu", unit: "matmul_vector", kernel: "matmul_vector",
		old: "    __syncthreads();  // all have read the chunk before\n",
		new: "",
	},
	{
		name: "a missing sync of a warp", file: "attend_decode.cu", unit: "attend_decode", kernel: "attend_decode",
		old: "    __syncwarp();\n    const f16* k = mine",
		new: "    const f16* k = mine",
	},
	{
		name: "queries read before they are finished", file: "attend_decode.cu", unit: "attend_decode", kernel: "attend_decode",
		old: "    queries = finished;\n    __syncthreads();\n",
		new: "    queries = finished;\n",
	},
	{
		name: "a tile over queries that others read", file: "attend_decode.cu", unit: "attend_decode", kernel: "attend_decode",
		old: "  if (products.k) __syncthreads();\n",
		new: "",
	},
	{
		// The first rows store what the later ones read. One worker, so that these always come first.
		name: "fresh keys that are another block's", file: "attend_decode.cu", unit: "attend_decode", kernel: "attend_decode",
		old: "row, max(stored, (from + split * length) * tile_len),",
		new: "row, max(end - 1, (from + split * length) * tile_len),", settings: "backwards=1,threads=1",
	},
	{
		name: "a position too many", file: "attend_prefill.cu", unit: "attend_prefill", kernel: "attend_prefill",
		old: "position >= end[j >> 1]) s[i][j] = no_score;",
		new: "position > end[j >> 1]) s[i][j] = no_score;",
	},
}

// TestMutants builds the kernels with one fault each, and runs their cases.
func TestMutants(t *testing.T) {
	if os.Getenv("WASMETER_MUTANTS") == "" {
		t.Skip("it compiles the kernels a dozen times; run it with WASMETER_MUTANTS=1 -timeout 30m")
	}
	library, err := emu.Path(true)
	if err != nil {
		t.Fatal(err)
	}
	type run struct{ kernel, settings string }
	asTheyAre := map[run]string{} // what the cases of a kernel say of it without a fault
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			// A suite that fails anyway finds everything.
			r := run{m.kernel, m.settings}
			if asTheyAre[r] == "" {
				asTheyAre[r] = runMutant(t, library, m.kernel, m.settings)
			}
			if said := asTheyAre[r]; !strings.Contains(said, survived) {
				t.Fatalf("cases of %s on the kernels as they are:\n%s", m.kernel, said)
			}
			said := runMutant(t, m.build(t, filepath.Dir(library)), m.kernel, m.settings)
			if !strings.Contains(said, caught) {
				t.Errorf("not found by the cases of %s:\n%s", m.kernel, said)
				return
			}
			t.Log(said)
		})
	}
}

// build makes a checked emulator with the mutant, and returns its path. All but the
// mutated unit is taken from built, the folder of the one without.
func (m mutant) build(t *testing.T, built string) string {
	t.Helper()
	sources, out := t.TempDir(), t.TempDir()
	kernels := filepath.Join(built, "..", "..")
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		copyFiles(t, filepath.Join(kernels, pattern), sources)
	}
	copyFiles(t, filepath.Join(built, "checked", "*.o"), filepath.Join(out, "checked"))
	path := filepath.Join(sources, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		t.Fatalf("%s has the text of this mutant %d times, and not once: write the mutant anew\n%s", m.file, n, m.old)
	}
	mutated := strings.Replace(string(text), m.old, m.new, 1)
	if err := os.WriteFile(path, []byte(mutated), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(out, "checked", m.unit+".o")); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(built, "..", "build.sh"), "checked")
	c.Env = append(os.Environ(), "OUT="+out, "SRC="+sources)
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	return filepath.Join(out, "libcuda_emu_checked.so")
}

// copyFiles copies what matches to a folder, with the times by which make decides.
func copyFiles(t *testing.T, pattern, to string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.Base(file))
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// What a run of cases ends with; neither where it never came to them.
const (
	caught   = "mutant caught: "
	survived = "mutant survived "
)

// runMutant runs the cases of some kernels in a process of its own, as a process has
// one driver.
func runMutant(t *testing.T, library, kernel, settings string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-test.run=^TestMutantCases$", "-test.v")
	c.Env = append(os.Environ(), "WASMETER_CUDA_DRIVER="+library, "WASMETER_MUTANT_KERNEL="+kernel, "CUDA_EMU="+settings)
	said, err := c.CombinedOutput()
	if err != nil && !strings.Contains(string(said), caught) {
		return fmt.Sprintf("%v\n%s", err, said)
	}
	return string(said)
}

// TestMutantCases is that process.
func TestMutantCases(t *testing.T) {
	kernel := os.Getenv("WASMETER_MUTANT_KERNEL")
	if kernel == "" {
		t.Skip("a part of TestMutants")
	}
	path := libraryPath(t)
	d, err := driver.Open(driver.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Enter(); err != nil {
		t.Fatal(err)
	}
	bench, err := suite.NewBench(d)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range suite.Cases() {
		if !strings.HasPrefix(c.Kernel, kernel) {
			continue
		}
		ran++
		if err := bench.Check(c); err != nil {
			// What is left of the device after a fault is not closed.
			fmt.Printf("%s%s, %s: %v\n", caught, c.Kernel, c.Name, err)
			return
		}
	}
	if ran == 0 {
		t.Fatalf("the suite has no case of %s", kernel)
	}
	fmt.Printf("%s%d cases\n", survived, ran)
}
