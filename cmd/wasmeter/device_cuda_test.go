//go:build cuda && cgo && linux

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// emulatedDriver is the path of the emulated driver that the tests were told.
func emulatedDriver(t *testing.T) string {
	t.Helper()
	path := os.Getenv(envDriver)
	if path == "" {
		t.Skip("WASMETER_CUDA_DRIVER names no CUDA driver; `make cuda-test` runs this on the emulated one")
	}
	return path
}

// smol is the real model, or skips.
func smol(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the model file: run `make model` (%v)", err)
	}
	return path
}

// slowClient waits for what an emulated device computes.
var slowClient = &http.Client{Timeout: 5 * time.Minute}

// startFails runs serve to its end, which is to come before it serves.
func startFails(t *testing.T, environ []string, args ...string) (code int, log string) {
	t.Helper()
	c := exec.Command(os.Args[0], append([]string{"serve", "--port=0"}, args...)...)
	c.Env = slices.Concat(os.Environ(), []string{asProgram + "=1"}, environ)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestServeOnDevices: this one program serves on the CPU where there is no driver or no
// device, and says why; and on the device that a driver shows.
func TestServeOnDevices(t *testing.T) {
	emulated, model := emulatedDriver(t), smol(t)
	for _, c := range []struct {
		name    string
		environ []string
		device  string   // in the log
		logged  []string // why not a GPU
	}{
		{"no driver", []string{envDriver + "=libcuda-of-nobody.so.1"}, "cpu", []string{"level=WARN", "no GPU: the CPU computes", "there is no CUDA driver", "install the NVIDIA driver"}},
		{"no device", []string{envDriver + "=" + emulated, "CUDA_EMU=devices=0"}, "cpu", []string{"level=WARN", "no GPU: the CPU computes", "CUDA_ERROR_NO_DEVICE"}},
		{"an old driver", []string{envDriver + "=" + emulated, "CUDA_EMU=version=12040"}, "cpu", []string{"no GPU: the CPU computes", "too old"}},
		{"an old GPU", []string{envDriver + "=" + emulated, "CUDA_EMU=capability=7.5"}, "cpu", []string{"no GPU: the CPU computes", "compute capability 7.5"}},
		{"a GPU", []string{envDriver + "=" + emulated}, "cuda:0", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.device != "cpu" && os.Getenv("WASMETER_MODEL_TESTS") == "" {
				t.Skip("a chat takes a minute on the emulated driver: `make model cuda-test` runs it")
			}
			p := startServe(t, c.environ, model, "--device=auto", "--enable-per-request-metrics", "--max-num-batched-tokens=64", "--max-num-seqs=4")
			for _, want := range c.logged {
				if !strings.Contains(p.logged(), want) {
					t.Errorf("the log lacks %q: %s", want, p.logged())
				}
			}
			if c.device != "cpu" && strings.Contains(p.logged(), "level=WARN") {
				t.Errorf("warnings with a GPU: %s", p.logged())
			}
			body := `{"model":"SmolLM2-135M-Instruct","messages":[{"role":"user","content":"Hi"}],"max_tokens":3,"temperature":0}`
			response, err := slowClient.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				Choices []struct{ Message struct{ Content string } }
				Usage   struct{ Completion_tokens int }
				Metrics *struct{ Generation_time_ms *float64 }
			}
			if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != 200 {
				t.Fatalf("status %d, %v: %s", response.StatusCode, err, text)
			}
			// The same three tokens on every device: greedy, and far from a tie.
			if len(answer.Choices) != 1 || answer.Choices[0].Message.Content != "Hello! How" || answer.Usage.Completion_tokens != 3 || answer.Metrics == nil || answer.Metrics.Generation_time_ms == nil {
				t.Errorf("answer %s, want three tokens, Hello! How, with metrics", text)
			}
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := p.end(t); code != exitDrained {
				t.Errorf("exit %d after SIGTERM; the log: %s", code, p.logged())
			}
		})
	}
}

// TestDevicesThatCannotServe: with cuda instead of auto, each of these ends the start.
func TestDevicesThatCannotServe(t *testing.T) {
	emulated, model := emulatedDriver(t), smol(t)
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		want    []string
	}{
		{"no driver", []string{envDriver + "=libcuda-of-nobody.so.1"}, []string{"--device=cuda"}, []string{"device cuda: ", "there is no CUDA driver"}},
		{"no cuBLASLt", []string{envDriver + "=" + emulated, envCuBLASLt + "=libcublasLt-of-nobody.so"}, []string{"--device=cuda", "--cublaslt=on"}, []string{"device cuda: ", "cublaslt: on: ", "libcublasLt-of-nobody.so", "pip install"}},
		{"no cuBLASLt, and any device", []string{envDriver + "=" + emulated, envCuBLASLt + "=libcublasLt-of-nobody.so"}, []string{"--device=auto", "--cublaslt=on"}, []string{"device auto: ", "cublaslt: on: ", "libcublasLt-of-nobody.so"}},
		{"no such device", []string{envDriver + "=" + emulated}, []string{"--device=cuda:9"}, []string{"device cuda:9: ", "device 9 does not exist: the driver shows 1"}},
		{"no memory for the cache", []string{envDriver + "=" + emulated, "CUDA_EMU=memory=256M"}, []string{"--device=cuda", "--gpu-memory-utilization=0.7"}, []string{"engine.gpu_memory_utilization: 0.7 leaves no memory for keys and values"}},
		{"too little memory", []string{envDriver + "=" + emulated, "CUDA_EMU=memory=64M"}, []string{"--device=cuda"}, []string{"the weights take", "gpu_memory_utilization 0.9", "smaller weights"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, log := startFails(t, c.environ, append([]string{model}, c.args...)...)
			if code != 1 {
				t.Errorf("exit %d, want 1", code)
			}
			for _, want := range c.want {
				if !strings.Contains(log, want) {
					t.Errorf("the log lacks %q: %s", want, log)
				}
			}
		})
	}
}

// TestBenchOnDevice: the same rows as on the CPU, under the GPU's name.
func TestBenchOnDevice(t *testing.T) {
	emulatedDriver(t)
	path := tinyModelFile(t)
	code, out, fault := command(t, nil, "bench", path, "--device", "cuda", "-p", "20", "-n", "3", "-r", "1", "--json")
	var results []benchResult
	if err := json.Unmarshal([]byte(out), &results); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, fault)
	}
	if len(results) != 2 || results[0].Test != "pp20" || results[1].Test != "tg3" || !strings.HasPrefix(results[0].Device, "cuda:0 ") || results[0].Threads != 0 || results[0].Mean <= 0 {
		t.Errorf("results %+v", results)
	}
	if code, _, fault := command(t, nil, "bench", path, "--device", "cuda", "--kv-cache-type", "q8_0"); code != 1 || !strings.Contains(fault, "not supported on CUDA: use f16") {
		t.Errorf("a cache of q8_0: exit %d, %s", code, fault)
	}
}

// TestSelftest: cases that pass, and a device that is lost in the middle.
func TestSelftest(t *testing.T) {
	lib, err := emu.Load(emulatedDriver(t))
	if err != nil {
		t.Skipf("needs the emulated driver: %v", err)
	}
	code, out, fault := command(t, nil, "selftest", "--device", "cuda", "--only", "rms_norm", "--shrink", "256", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, fault)
	}
	var report selftestReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	passed := 0
	for _, k := range report.Kernels {
		if passed += k.Passed; len(k.Failures) > 0 || !strings.Contains(k.Kernel, "rms_norm") {
			t.Errorf("kernel %+v", k)
		}
	}
	if passed == 0 || len(report.Speeds) == 0 || report.Speeds[0].GBs <= 0 || report.Capability != "8.0" {
		t.Errorf("report %+v", report)
	}

	code, out, _ = command(t, nil, "selftest", "--only", "rms_norm", "--shrink", "256")
	if code != 0 || !strings.Contains(out, "KERNEL") || !strings.Contains(out, "rms_norm_add") {
		t.Errorf("exit %d: %s", code, out)
	}

	if err := lib.Configure("launch=4"); err != nil {
		t.Fatal(err)
	}
	defer lib.Reset()
	code, out, fault = command(t, nil, "selftest", "--only", "rms_norm")
	if code != 1 || !strings.Contains(fault, "selftest stopped after") || !strings.Contains(fault, "LAUNCH_FAILED") || !strings.Contains(out, "FAILED rms_norm") {
		t.Errorf("a device that is lost: exit %d, %s%s", code, out, fault)
	}

	// The first failure of the device ended its context; what follows opens another.
	lib.Reset()
	library, _ := emu.LibraryPath(emulatedDriver(t))
	for _, c := range []struct{ path, want string }{
		{library, "cuBLASLt: " + library + ", version 12.8.4"},
		{"libcublasLt-of-nobody.so", "cuBLASLt: cuBLASLt can't be used: libcublasLt-of-nobody.so: "},
	} {
		t.Setenv(envCuBLASLt, c.path)
		code, out, fault := command(t, nil, "selftest", "--only", "lt", "--shrink", "512")
		if found := c.path == library; found && (code != 0 || !strings.Contains(out, "cublaslt  ")) || !found && (code != 1 || !strings.Contains(fault, "no case ran")) || !strings.Contains(out, c.want) {
			t.Errorf("cuBLASLt at %s: exit %d, %s%s", c.path, code, out, fault)
		}
	}

	if code, _, fault := command(t, nil, "selftest", "--only", "nothing"); code != 1 || !strings.Contains(fault, "no case ran") {
		t.Errorf("no such kernel: exit %d, %s", code, fault)
	}
}
