package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/host/plugin/bench"
	"github.com/wasmeter/wasmeter/host/plugin/replay"
)

// maxBenchFrames bounds the frames that calls take in turn.
const maxBenchFrames = 10_000

func newPluginBench(t terminal) *cobra.Command {
	var (
		how     offline
		options bench.Options
		frames  string
		asJSON  bool
	)
	command := &cobra.Command{
		Use:   "bench FILE [flags]",
		Short: "Measure the time, fuel and memory of a plugin's hooks",
		Long: `Call each hook of a plugin, as the server does, and say what a call takes: its time
with the frame written and the result checked, of which the last thousandth has the
guest's garbage collections in it; its fuel, which is the same on every machine; the
memory that the plugin grows to; and what the host allocates. FILE is a module, or
builtin:NAME for one that is part of this program.

With --native the plugin's source, a folder with a package in Go, is built for this
machine, and its hooks are measured beside the sandbox: what the sandbox costs. That is
the hook alone, without the frame's writing and the result's checks. It needs go.

Times are this machine's, of one goroutine; a busy machine shows in p99 and max.`,
		Example: `  wasmeter plugin bench builtin:metrics --native plugins/metrics
  wasmeter plugin bench billing.wasm --plugin-config '{"input":2500000,"output":10000000}' --frames yesterday.frames.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := how.spec(args[0], how.setting)
			if err != nil {
				return err
			}
			if frames != "" {
				if options.Frames, err = readFrames(frames, maxBenchFrames); err != nil {
					return fmt.Errorf("%s: %w", frames, err)
				}
			}
			options.Model = cmp.Or(options.Model, how.model)
			report, err := bench.Run(c.Context(), offlineHost(), spec, options)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				return json.NewEncoder(t.out).Encode(report)
			}
			return printBench(t.out, report)
		},
	}
	flags := command.Flags()
	how.flags(flags)
	flags.IntVar(&options.Calls, "calls", 100_000, "`number` of calls of each hook")
	flags.DurationVar(&options.Longest, "time", 30*time.Second, "most `time` for the calls of a hook")
	flags.StringVar(&frames, "frames", "", "`file` of recorded requests to call it with, the first 10000; without it, generated ones")
	flags.StringVar(&options.Model, "model", "", "`name` of the model that generated requests ask for (default that of the server's YAML file, else sim)")
	flags.StringVar(&options.Native, "native", "", "`folder` with the plugin's source in Go, to measure beside it")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// readFrames reads the first frames of a file.
func readFrames(path string, most int) ([]*plugin.Frame, error) {
	file, err := openFrames(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := replay.NewReader(file)
	if err != nil {
		return nil, err
	}
	var list []*plugin.Frame
	for len(list) < most {
		frame, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		list = append(list, frame)
	}
	if len(list) == 0 {
		return nil, errors.New("no requests in it")
	}
	return list, nil
}

func printBench(out io.Writer, r *bench.Report) error {
	if _, err := fmt.Fprintf(out, "%.12s, %d different requests\n", r.SHA256, r.Frames); err != nil {
		return err
	}
	if len(r.Hooks) == 0 {
		_, err := fmt.Fprintln(out, "with this configuration the plugin has no hooks")
		return err
	}
	heading := []string{"HOOK", "CALLS", "MEAN", "P50", "P99", "P99.9", "MAX"}
	if r.Hooks[0].Native != nil {
		heading = append(heading, "NATIVE P50", "RATIO")
	}
	times := newTable(out, heading...)
	for _, h := range r.Hooks {
		row := append([]string{h.Hook, fmt.Sprint(h.Calls)}, timeCells(&h.Time)...)
		if h.Native != nil {
			row = append(row, micros(h.Native.P50), fmt.Sprintf("1 : %.1f", float64(h.Time.P50)/float64(max(h.Native.P50, 1))))
		}
		times.row(row...)
	}
	if err := times.end(); err != nil {
		return err
	}
	costs := newTable(out, "HOOK", "FUEL P50", "P99", "MAX", "MEMORY", "GREW BY", "HOST ALLOCS", "FAILED")
	for _, h := range r.Hooks {
		costs.row(h.Hook, fmt.Sprint(h.Fuel.P50), fmt.Sprint(h.Fuel.P99), fmt.Sprint(h.Fuel.Max),
			fmt.Sprintf("%d KiB", h.MemoryAfter>>10), fmt.Sprintf("%d KiB", (h.MemoryAfter-h.MemoryBefore)>>10),
			fmt.Sprintf("%.2f (%.0f bytes)", h.HostAllocs, h.HostBytes), failuresCell(h.Failures))
	}
	if err := costs.end(); err != nil {
		return err
	}
	for _, h := range r.Hooks {
		if h.Failure != "" {
			if _, err := fmt.Fprintf(out, "\n%s failed, the last time with: %s\n", h.Hook, h.Failure); err != nil {
				return err
			}
		}
		if h.Denied > 0 {
			if _, err := fmt.Fprintf(out, "\n%s refused %d of %d requests, which a server would not have run; the last one with: %s\n", h.Hook, h.Denied, h.Calls, h.Denial); err != nil {
				return err
			}
		}
	}
	return nil
}

func timeCells(t *bench.Times) []string {
	return []string{micros(t.Mean), micros(t.P50), micros(t.P99), micros(t.P999), micros(t.Max)}
}

func micros(ns int64) string { return fmt.Sprintf("%.2f µs", float64(ns)/1000) }

// failuresCell lists kinds with their counts.
func failuresCell(failures map[string]int) string {
	if len(failures) == 0 {
		return "none"
	}
	text, err := json.Marshal(failures)
	if err != nil {
		panic(fmt.Sprintf("a map of numbers is no JSON: %v", err))
	}
	return string(text)
}
