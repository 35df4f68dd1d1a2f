package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/config"
)

// selftestOptions are the flags of selftest.
type selftestOptions struct {
	device string
	only   string
	shrink int
	asJSON bool
}

// selftestReport is what selftest found.
type selftestReport struct {
	Device     string `json:"device"`
	Driver     string `json:"driver_cuda_version"`
	Capability string `json:"compute_capability"`
	// Peaks follow from the device's attributes; 0 where they don't say.
	PeakGBs    float64 `json:"peak_gb_per_s"`
	PeakTFLOPS float64 `json:"peak_tflops_bf16"`
	// CuBLASLt is the library that was found, or why none was.
	CuBLASLt string           `json:"cublaslt"`
	Kernels  []selftestKernel `json:"kernels"`
	Speeds   []selftestSpeed  `json:"speeds"`
	// Stopped says why not all was run.
	Stopped string `json:"stopped,omitempty"`
}

// selftestKernel is one kernel's cases.
type selftestKernel struct {
	Kernel   string   `json:"kernel"`
	Passed   int      `json:"passed"`
	Failures []string `json:"failures"`
}

// selftestSpeed is one timed launch.
type selftestSpeed struct {
	Kernel       string  `json:"kernel"`
	Size         string  `json:"size"`
	Microseconds float64 `json:"us"`
	GBs          float64 `json:"gb_per_s"`
	TFLOPS       float64 `json:"tflops"`
	Failure      string  `json:"failure,omitempty"`
}

func newSelftest(t terminal) *cobra.Command {
	o := selftestOptions{}
	command := &cobra.Command{
		Use:   "selftest --device cuda[:n] [flags]",
		Short: "Check and time the kernels on this machine's GPU",
		Long: `Run each CUDA kernel on random values of odd sizes, compare with a twin in float64,
and time it at a size that models have: what it moves and computes a second, beside the
device's peak by its attributes. Exit code 1 if a kernel is wrong. Where cuBLASLt is found,
its products are checked and timed too, beside ours of the same sizes (--cublaslt of serve).

The CPU's kernels have their check in the tests: go test ./kernels/cpu.`,
		Example: `  wasmeter selftest --device cuda
  wasmeter selftest --device cuda:1 --only attend --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ordinal, err := o.ordinal()
			if err != nil {
				return err
			}
			report, err := selftest(c.Context(), o, ordinal)
			if err != nil {
				return fmt.Errorf("device %s: %w", o.device, err)
			}
			return report.print(t.out, o.asJSON)
		},
	}
	f := command.Flags()
	f.StringVar(&o.device, "device", "cuda", "what to check: cuda or cuda:n")
	f.StringVar(&o.only, "only", "", "kernels whose name contains `text`")
	f.IntVar(&o.shrink, "shrink", 1, "divide the sizes that are timed, for a device that is slow")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return command
}

// ordinal is the device's number.
func (o *selftestOptions) ordinal() (int, error) {
	if err := config.CheckDevice(o.device); err != nil {
		return 0, fmt.Errorf("--device: %w", err)
	}
	if o.shrink < 1 || o.shrink > 1<<16 {
		return 0, fmt.Errorf("--shrink: %d is not in 1 … 65536", o.shrink)
	}
	name, number, _ := strings.Cut(o.device, ":")
	if name != "cuda" {
		return 0, fmt.Errorf("--device: %s has no check of its own in this program; use cuda or cuda:n, or run go test ./kernels/cpu for the CPU's kernels", o.device)
	}
	n, _ := strconv.Atoi(number) // none is 0; CheckDevice has seen the others
	return n, nil
}

// fault is the command's error: what did not pass, nil if all did.
func (r *selftestReport) fault() error {
	passed, failed := 0, 0
	for _, k := range r.Kernels {
		passed, failed = passed+k.Passed, failed+len(k.Failures)
	}
	for _, s := range r.Speeds {
		if s.Failure != "" {
			failed++
		}
	}
	switch {
	case r.Stopped != "":
		return fmt.Errorf("selftest stopped after %d cases that passed and %d that did not: %s", passed, failed, r.Stopped)
	case failed > 0:
		return fmt.Errorf("%d cases failed, %d passed: this device does not compute what it should; don't serve from it, and report the output of --json", failed, passed)
	case passed == 0:
		return fmt.Errorf("no case ran: no kernel has such a name")
	}
	return nil
}

// print writes the report and returns its fault.
func (r *selftestReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
		return r.fault()
	}
	peak := func(of float64, unit string) string {
		if of == 0 {
			return "unknown"
		}
		return fmt.Sprintf("%.0f %s", of, unit)
	}
	fmt.Fprintf(out, "%s, compute capability %s, driver of CUDA %s; peaks by its attributes: %s, %s in bf16\n\n",
		r.Device, r.Capability, r.Driver, peak(r.PeakGBs, "GB/s"), peak(r.PeakTFLOPS, "TFLOPS"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KERNEL\tPASSED\tFAILED")
	for _, k := range r.Kernels {
		fmt.Fprintf(w, "%s\t%d\t%d\n", k.Kernel, k.Passed, len(k.Failures))
	}
	fmt.Fprintln(w, "\nKERNEL\tSIZE\tTIME\tGB/S\tOF PEAK\tTFLOPS\tOF PEAK")
	for _, s := range r.Speeds {
		if s.Failure != "" {
			fmt.Fprintf(w, "%s\t%s\tfailed\n", s.Kernel, s.Size)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f µs\t%.1f\t%s\t%.2f\t%s\n", s.Kernel, s.Size, s.Microseconds, s.GBs, share(s.GBs, r.PeakGBs), s.TFLOPS, share(s.TFLOPS, r.PeakTFLOPS))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ncuBLASLt: %s\n", r.CuBLASLt)
	for _, s := range r.Speeds {
		if ratio := r.againstOurs(s); ratio > 0 {
			fmt.Fprintf(out, "%s: %.2f times the speed of our kernel\n", s.Size, ratio)
		}
	}
	for _, k := range r.Kernels {
		for _, failure := range k.Failures {
			fmt.Fprintf(out, "\nFAILED %s, %s\n", k.Kernel, failure)
		}
	}
	for _, s := range r.Speeds {
		if s.Failure != "" {
			fmt.Fprintf(out, "\nFAILED %s, %s: %s\n", s.Kernel, s.Size, s.Failure)
		}
	}
	return r.fault()
}

// againstOurs is how many times as fast as our kernel cuBLASLt is at a size: 0 for what is
// not its row, or has no other beside it.
func (r *selftestReport) againstOurs(s selftestSpeed) float64 {
	if s.Kernel != "cublaslt" || s.Microseconds == 0 {
		return 0
	}
	for _, other := range r.Speeds {
		if other.Size == s.Size && other.Kernel != s.Kernel {
			return other.Microseconds / s.Microseconds
		}
	}
	return 0
}

func share(of, peak float64) string {
	if peak == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*of/peak)
}
