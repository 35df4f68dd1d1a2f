package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/gguf"
)

// tinyModelFile writes a model of some thousand weights.
func tinyModelFile(t *testing.T) string {
	t.Helper()
	metadata, tensors := backendtest.TinyLlama()
	var file bytes.Buffer
	if err := gguf.Write(&file, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBench(t *testing.T) {
	path := tinyModelFile(t)
	code, out, err := command(t, nil, "bench", path, "-p", "20,0", "-n", "3", "-d", "0,40", "-t", "1,2", "-r", "2", "--kv-cache-type", "q8_0", "--json")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, err)
	}
	var results []benchResult
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	var tests []string
	for _, r := range results {
		tests = append(tests, r.Test)
		if len(r.TokensPerSecond) != 2 || r.Mean <= 0 || r.Best < r.Mean || r.KVType != "q8_0" || r.Model != "tiny.gguf" {
			t.Errorf("got %+v, want two positive samples of tiny.gguf with a cache of q8_0", r)
		}
	}
	one := []string{"pp20", "tg3", "pp20 @ d40", "tg3 @ d40"}
	if want := slices.Concat(one, one); !slices.Equal(tests, want) {
		t.Errorf("tests %q, want %q", tests, want)
	}
	if first, last := results[0].Threads, results[len(results)-1].Threads; first != 1 || last != 2 {
		t.Errorf("threads %d and %d, want 1 and 2", first, last)
	}

	code, out, err = command(t, nil, "bench", path, "-p", "8", "-n", "2", "-r", "1", "-t", "1")
	if code != 0 || !strings.Contains(out, "tiny.gguf") || !strings.Contains(out, "pp8") || !strings.Contains(out, "tg2") {
		t.Errorf("exit %d, %s%s, want a table with pp8 and tg2", code, out, err)
	}
}

func TestBenchKernels(t *testing.T) {
	code, out, err := command(t, nil, "bench", "kernels", "--time", "1ms", "--threads", "1", "--json")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, err)
	}
	var reports []levelReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) == 0 {
		t.Fatalf("%v in %s", err, out)
	}
	for _, r := range reports {
		if r.Read <= 0 || r.Peak <= 0 || len(r.Forms) != 9 {
			t.Errorf("%s: reads %g bytes/s, peak %g ops/s, %d forms; want 9", r.Level, r.Read, r.Peak, len(r.Forms))
		}
		for _, f := range r.Forms {
			peak := r.Peak
			if f.Form == "F16" || f.Form == "BF16" {
				peak = r.FloatPeak
			}
			if f.GEMV <= 0 || f.GEMM <= 0 || f.Bits < 4.6 || f.Bits > 16 || f.GEMVShare != f.GEMV/r.Read || f.GEMMShare != f.GEMM/peak {
				t.Errorf("%s: got %+v", r.Level, f)
			}
		}
	}
	code, out, err = command(t, nil, "bench", "kernels", "--time", "1ms", "--threads", "1")
	if code != 0 || !strings.Contains(out, "of peak") || !strings.Contains(out, "Q6_K") {
		t.Errorf("exit %d, %s%s, want a table with Q6_K", code, out, err)
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	path := tinyModelFile(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bench"}, "make model"},
		{[]string{"bench", "none.gguf"}, "none.gguf"},
		{[]string{"bench", path, "-p", "-1"}, "--n-prompt: -1"},
		{[]string{"bench", path, "-r", "0"}, "--repetitions: 0"},
		{[]string{"bench", path, "-d", "1000000"}, "the model's"},
		{[]string{"bench", path, "--kv-cache-type", "q4"}, `"q4" is not one of f16, q8_0`},
		{[]string{"bench", "kernels", "--level", "sse"}, `"sse"`},
		{[]string{"bench", "kernels", "--time", "1h"}, "1h"},
	} {
		if code, out, err := command(t, nil, c.args...); code != 1 || !strings.Contains(err, c.want) {
			t.Errorf("wasmeter %q: exit %d, %s%s, want 1 with %q", c.args, code, out, err, c.want)
		}
	}
}
