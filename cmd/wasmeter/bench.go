package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/engine/model"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	prompts, outputs, depths []int
	threads                  []int
	repetitions              int
	kvType, device, cublaslt string
	asJSON                   bool
}

// benchResult is one row: a prompt or an output of some tokens after a context.
type benchResult struct {
	Model   string `json:"model"`
	Device  string `json:"device"`
	Threads int    `json:"threads"` // of the host that compute; 0 on a GPU
	KVType  string `json:"kv_cache_type"`
	Test    string `json:"test"` // pp512 or tg128, with @ d1024
	Prompt  int    `json:"n_prompt"`
	Output  int    `json:"n_gen"`
	Depth   int    `json:"n_depth"`
	// TokensPerSecond are of each repetition; the others sum them up.
	TokensPerSecond []float64 `json:"samples_ts"`
	Mean            float64   `json:"avg_ts"`
	Deviation       float64   `json:"stddev_ts"`
	Best            float64   `json:"best_ts"`
}

func newBench(t terminal) *cobra.Command {
	o := benchOptions{}
	command := &cobra.Command{
		Use:   "bench [MODEL] [flags]",
		Short: "Measure tokens per second of a model, or the kernels",
		Long: `Compute prompts and outputs of a model on its own, without server, scheduler or
sampling, and say how many tokens a second it takes: pp512 is a prompt of 512 tokens, tg128
an output of 128, one at a time; @ d1024 comes after 1024 tokens of context. The numbers
compare with those of llama-bench under the same names.

best is the machine's number; where the mean is far below it, something else was running.`,
		Example: `  wasmeter bench models/SmolLM2-135M-Instruct.Q4_1.gguf -d 0,1024
  wasmeter bench -p 0 -n 64 --threads 1,2 --kv-cache-type q8_0 --json
  wasmeter bench --device cuda -d 0,4096
  wasmeter bench --device cuda -p 512,2048 -n 0 --cublaslt on
  wasmeter bench kernels`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			path, err := "", error(nil)
			if len(args) > 0 {
				path = args[0]
			} else if path, err = findModel(); err != nil {
				return err
			}
			results, err := o.run(c.Context(), path, t)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if o.asJSON {
				return json.NewEncoder(t.out).Encode(results)
			}
			return printModelBench(t.out, results)
		},
	}
	f := command.Flags()
	f.IntSliceVarP(&o.prompts, "n-prompt", "p", []int{512}, "tokens of the prompts; 0 is none")
	f.IntSliceVarP(&o.outputs, "n-gen", "n", []int{128}, "tokens of the outputs; 0 is none")
	f.IntSliceVarP(&o.depths, "n-depth", "d", []int{0}, "tokens of context before them")
	f.IntSliceVarP(&o.threads, "threads", "t", []int{0}, "computing threads; 0 takes the free cores")
	f.IntVarP(&o.repetitions, "repetitions", "r", 5, "how often each is measured")
	f.StringVar(&o.kvType, "kv-cache-type", cpu.KVF16, "how keys and values are stored: f16 or q8_0")
	f.StringVar(&o.device, "device", "auto", "where to compute: auto, cpu, cuda or cuda:n")
	f.StringVar(&o.cublaslt, "cublaslt", cuda.CuBLASLtOff, "on a GPU, NVIDIA's library for prompts of F16 and BF16 models: off, auto or on")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	command.AddCommand(newBenchKernels(t))
	return command
}

// maxBenchTokens bounds prompts, outputs and contexts.
const maxBenchTokens = 1 << 20

func (o *benchOptions) validate() error {
	var faults []error
	for name, values := range map[string][]int{"n-prompt": o.prompts, "n-gen": o.outputs, "n-depth": o.depths} {
		for _, n := range values {
			if n < 0 || n > maxBenchTokens {
				faults = append(faults, fmt.Errorf("--%s: %d is not in 0 … %d", name, n, maxBenchTokens))
			}
		}
	}
	if err := (cuda.Options{CuBLASLt: o.cublaslt}).Validate(); err != nil {
		faults = append(faults, fmt.Errorf("--%w", err))
	}
	if err := config.CheckDevice(o.device); err != nil {
		faults = append(faults, fmt.Errorf("--device: %w", err))
	} else if err := o.computing(0, nil).check(); err != nil {
		faults = append(faults, err)
	}
	if o.repetitions < 1 || o.repetitions > 1000 {
		faults = append(faults, fmt.Errorf("--repetitions: %d is not in 1 … 1000", o.repetitions))
	}
	return errors.Join(faults...)
}

// computing says what computes.
func (o *benchOptions) computing(threads int, logger *slog.Logger) deviceOptions {
	return deviceOptions{name: o.device, threads: threads, kvType: o.kvType, cublaslt: o.cublaslt, logger: logger}
}

// run measures everything. The model is loaded anew for each number of threads.
func (o *benchOptions) run(ctx context.Context, path string, t terminal) ([]benchResult, error) {
	logger := newLogger(t.err, new(slog.LevelVar))
	var results []benchResult
	for _, threads := range o.threads {
		file, err := openModel(path, false)
		if err != nil {
			return nil, err
		}
		device, err := o.computing(threads, logger).open()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		m, err := model.Load(file, device)
		if err != nil {
			return nil, errors.Join(err, device.Close(), file.Close())
		}
		b := benchModel{model: m}
		rows, err := b.measure(ctx, o)
		if err := errors.Join(err, m.Close(), file.Close()); err != nil {
			return nil, err
		}
		for _, r := range rows {
			r.Model, r.Device, r.KVType = filepath.Base(path), device.Name(), o.kvType
			if s, ok := device.(backend.Sharer); ok {
				r.Threads = s.Threads()
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// benchBlockSize is the server's default.
const benchBlockSize = 16

// benchModel is one sequence of a model.
type benchModel struct {
	model  model.Model
	blocks []int32
	batch  backend.Batch
}

func (b *benchModel) measure(ctx context.Context, o *benchOptions) ([]benchResult, error) {
	longest := 1
	for _, depth := range o.depths {
		for _, n := range append(o.prompts, o.outputs...) {
			longest = max(longest, depth+n)
		}
	}
	if limit := b.model.Shape().Context; longest > limit {
		return nil, fmt.Errorf("%d tokens of context and prompt or output are more than the model's %d", longest, limit)
	}
	b.blocks = make([]int32, (longest+benchBlockSize-1)/benchBlockSize)
	for i := range b.blocks {
		b.blocks[i] = int32(i)
	}
	if err := b.model.Reserve(len(b.blocks), benchBlockSize); err != nil {
		return nil, err
	}
	var results []benchResult
	for _, depth := range o.depths {
		if err := b.prompt(ctx, 0, depth); err != nil {
			return nil, err
		}
		name := func(kind string, n int) string {
			if depth == 0 {
				return fmt.Sprintf("%s%d", kind, n)
			}
			return fmt.Sprintf("%s%d @ d%d", kind, n, depth)
		}
		for _, n := range o.prompts {
			r := benchResult{Test: name("pp", n), Prompt: n, Depth: depth}
			if err := r.repeat(o.repetitions, n, func() error { return b.prompt(ctx, depth, n) }); err != nil {
				return nil, err
			}
			results = r.appendTo(results)
		}
		for _, n := range o.outputs {
			r := benchResult{Test: name("tg", n), Output: n, Depth: depth}
			if err := r.repeat(o.repetitions, n, func() error { return b.output(ctx, depth, n) }); err != nil {
				return nil, err
			}
			results = r.appendTo(results)
		}
	}
	return results, nil
}

// prompt computes n tokens from a position on, in as large steps as the model takes;
// the last gives logits.
func (b *benchModel) prompt(ctx context.Context, start, n int) error {
	for at := 0; at < n; at += b.model.Shape().MaxRows {
		rows := min(b.model.Shape().MaxRows, n-at)
		if err := b.step(ctx, start+at, rows, at+rows == n); err != nil {
			return err
		}
	}
	return nil
}

// output computes n tokens from a position on, one at a time.
func (b *benchModel) output(ctx context.Context, start, n int) error {
	for i := range n {
		if err := b.step(ctx, start+i, 1, true); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchModel) step(ctx context.Context, start, rows int, sample bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.batch.Reset()
	for position := start; position < start+rows; position++ {
		// Any tokens do: the work is the same.
		b.batch.Tokens = append(b.batch.Tokens, int32(position*37%b.model.Shape().Vocab))
		b.batch.Positions = append(b.batch.Positions, int32(position))
		b.batch.Slots = append(b.batch.Slots, int32(position)) // the blocks are in order
	}
	b.batch.Seqs = append(b.batch.Seqs, backend.Seq{Len: int32(rows), Context: int32(start + rows), Blocks: b.blocks})
	if sample {
		b.batch.Sample = append(b.batch.Sample, int32(rows-1))
	}
	_, err := b.model.Forward(&b.batch)
	return err
}

// repeat measures run, which computes n tokens, after once for warming up.
func (r *benchResult) repeat(times, n int, run func() error) error {
	if n == 0 {
		return nil
	}
	for i := range times + 1 {
		start := time.Now()
		if err := run(); err != nil {
			return err
		}
		if i > 0 {
			r.TokensPerSecond = append(r.TokensPerSecond, float64(n)/time.Since(start).Seconds())
		}
	}
	for _, v := range r.TokensPerSecond {
		r.Mean += v / float64(times)
		r.Best = max(r.Best, v)
	}
	for _, v := range r.TokensPerSecond {
		r.Deviation += (v - r.Mean) * (v - r.Mean) / max(1, float64(times-1))
	}
	r.Deviation = math.Sqrt(r.Deviation)
	return nil
}

func (r benchResult) appendTo(results []benchResult) []benchResult {
	if len(r.TokensPerSecond) == 0 {
		return results
	}
	return append(results, r)
}

func printModelBench(out io.Writer, results []benchResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tDEVICE\tCACHE\tTEST\tTOKENS/S\tBEST")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f ± %.2f\t%.2f\n", r.Model, r.Device, r.KVType, r.Test, r.Mean, r.Deviation, r.Best)
	}
	return w.Flush()
}
