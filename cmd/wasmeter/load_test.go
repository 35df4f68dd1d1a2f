package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// heavy skips a measurement of minutes unless it is asked for.
func heavy(t *testing.T) {
	t.Helper()
	if os.Getenv("WASMETER_LOAD") == "" {
		t.Skip("takes minutes and a quiet machine: run `make load`")
	}
}

// cpu is the processor time that the process has used.
func (p *process) cpu(t *testing.T) time.Duration {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.Process.Pid))
	if err != nil {
		t.Skipf("needs /proc to read a process's time: %v", err)
	}
	var sum time.Duration
	for _, task := range tasks {
		// Time on the processor in nanoseconds comes first. A thread that has
		// just ended has no file.
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", p.Process.Pid, task.Name()))
		if err != nil {
			continue
		}
		ns, _ := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}

// memory is the resident memory in bytes.
func (p *process) memory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid))
	if err != nil {
		t.Skipf("needs /proc to read a process's memory: %v", err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// connection is a client that costs little: it writes bytes that were made once,
// and looks for the end of the answer only.
type connection struct {
	net.Conn
	in *bufio.Reader
}

func (p *process) dial() (*connection, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReaderSize(c, 4096)}, nil
}

func postBytes(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// do sends a request and reads its answer.
func (c *connection) do(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answer %q", status)
	}
	length := -1 // chunked
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
		}
		if len(line) == 2 {
			break
		}
	}
	if length >= 0 {
		_, err := c.in.Discard(length)
		return err
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size %q", line)
		}
		if _, err := c.in.Discard(int(size) + 2); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

// pressure sends n requests over a number of connections and returns the server's
// time for each and how many were answered a second.
func (p *process) pressure(t *testing.T, request []byte, n, connections int) (perRequest time.Duration, rate float64) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	var open []*connection
	for range connections {
		c, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	before, begun := p.cpu(t), time.Now()
	for _, c := range open {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := c.do(request); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took, used := time.Since(begun), p.cpu(t)-before
	for _, c := range open {
		c.Close()
	}
	return used / time.Duration(n), float64(n) / took.Seconds()
}

// TestCostOfMetrics measures, on a device that takes no time, what a request of
// 16 tokens costs the server with and without per-request metrics: interleaved
// pairs, and the mean difference with its 95 % interval.
func TestCostOfMetrics(t *testing.T) {
	heavy(t)
	instant := []string{"--sim-step-base=0", "--sim-prefill-per-token=0", "--sim-per-sequence=0", "--log-level=warn"}
	on := start(t, append(instant, "--enable-per-request-metrics")...)
	off := start(t, instant...)
	const body = `{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":16,"temperature":0,"ignore_eos":true`
	for _, c := range []struct {
		name, body string
	}{
		{"whole", body + `}`},
		{"streamed", body + `,"stream":true,"stream_options":{"include_usage":true}}`},
	} {
		request := postBytes("/v1/chat/completions", c.body)
		const pairs, each, connections = 24, 3000, 16
		on.pressure(t, request, each, connections)
		off.pressure(t, request, each, connections)
		var with, without, difference, rates []float64
		for range pairs {
			a, rate := on.pressure(t, request, each, connections)
			b, _ := off.pressure(t, request, each, connections)
			with, without = append(with, micro(a)), append(without, micro(b))
			difference, rates = append(difference, micro(a-b)), append(rates, rate)
		}
		mean, half := interval(difference)
		t.Logf("%s: %.1f µs of CPU a request with metrics, %.1f without; difference %.2f ± %.2f µs (95 %%, %d pairs of %d requests); %.0f requests/s; %d cores, %s",
			c.name, median(with), median(without), mean, half, pairs, each, median(rates), runtime.NumCPU(), runtime.GOARCH)
	}
}

// TestManyStreams holds 5,000 streams, nearly idle and of ten tokens a second, and
// measures the memory of each; no token may be lost.
func TestManyStreams(t *testing.T) {
	heavy(t)
	t.Run("idle", func(t *testing.T) { holdStreams(t, 5000, 3, "6s") })
	t.Run("ten tokens a second", func(t *testing.T) { holdStreams(t, 5000, 100, "100ms") })
}

func holdStreams(t *testing.T, streams, tokens int, step string) {
	p := start(t, "--sim-step-base="+step, "--sim-prefill-per-token=0", "--sim-per-sequence=0", "--log-level=warn",
		"--max-num-seqs=5000", "--max-num-batched-tokens=200000", "--max-num-queued-reqs=5000", "--max-model-len=256")
	before := p.memory(t)
	request := postBytes("/v1/chat/completions", fmt.Sprintf(
		`{"model":"sim","messages":[{"role":"user","content":"hi"}],"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`, tokens))
	var wg sync.WaitGroup
	var whole atomic.Int64
	begun := time.Now()
	for range streams {
		c, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer c.Close()
			if _, err := c.Write(request); err != nil {
				t.Error(err)
				return
			}
			last := ""
			for {
				line, err := c.in.ReadString('\n')
				if err != nil {
					t.Errorf("stream broken: %v", err)
					return
				}
				if strings.HasPrefix(line, "data: [DONE]") {
					break
				}
				if strings.HasPrefix(line, "data: ") {
					last = line
				}
			}
			if strings.Contains(last, fmt.Sprintf(`"completion_tokens":%d,`, tokens)) || strings.Contains(last, fmt.Sprintf(`"completion_tokens":%d}`, tokens)) {
				whole.Add(1)
			}
		})
	}
	peak := int64(0)
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for ticker := time.NewTicker(250 * time.Millisecond); ; {
		select {
		case <-ticker.C:
			peak = max(peak, p.memory(t))
			continue
		case <-done:
		}
		ticker.Stop()
		break
	}
	took := time.Since(begun)
	t.Logf("%d streams of %d tokens: %d whole in %s (%.0f tokens/s); memory before %.1f MiB, at most %.1f MiB, %.1f KiB a stream",
		streams, tokens, whole.Load(), took.Round(time.Millisecond), float64(streams*tokens)/took.Seconds(), float64(before)/(1<<20), float64(peak)/(1<<20), float64(peak-before)/1024/float64(streams))
	if whole.Load() != int64(streams) {
		t.Errorf("%d of %d streams had all their tokens", whole.Load(), streams)
	}
}

// TestHangingUp keeps 64 streams going for a minute while a third of the clients
// leaves at random points: nothing may be left at the end.
func TestHangingUp(t *testing.T) {
	heavy(t)
	p := start(t, "--sim-step-base=2ms", "--sim-prefill-per-token=10us", "--log-level=warn", "--enable-per-request-metrics")
	request := postBytes("/v1/chat/completions",
		`{"model":"sim","messages":[{"role":"user","content":"hello"}],"max_tokens":200,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`)
	end := time.Now().Add(time.Minute)
	var finished, left atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for time.Now().Before(end) {
				c, err := p.dial()
				if err != nil {
					t.Error(err)
					return
				}
				if rnd.IntN(3) > 0 {
					if err := c.do(request); err != nil {
						t.Error(err)
					}
					finished.Add(1)
				} else {
					_, _ = c.Write(request)
					_ = c.SetReadDeadline(time.Now().Add(time.Duration(rnd.IntN(500)) * time.Millisecond))
					_, _ = io.Copy(io.Discard, c.in) // until the deadline
					left.Add(1)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d streams finished, %d clients left", finished.Load(), left.Load())
	deadline := time.Now().Add(5 * time.Second)
	for {
		gauges := p.gauges(t)
		if gauges == "0 0 0" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("running, waiting and KV use are %s, want 0", gauges)
		}
	}
	// A race detector that has seen something makes the exit code 66.
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitDrained {
		t.Errorf("exit code %d: %s", code, &p.log)
	}
}

// gauges reads the engine's gauges from /metrics.
func (p *process) gauges(t *testing.T) string {
	t.Helper()
	response, err := client.Get(p.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var values [3]string
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for i, name := range []string{"vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc{"} {
			if strings.HasPrefix(lines.Text(), name) {
				values[i] = lines.Text()[strings.LastIndex(lines.Text(), " ")+1:]
			}
		}
	}
	return strings.Join(values[:], " ")
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// interval is the mean with half the width of its 95 % interval, by the normal
// distribution.
func interval(v []float64) (mean, half float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	variance := 0.
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(len(v)-1)
	}
	return mean, 1.96 * math.Sqrt(variance/float64(len(v)))
}
