package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// kernelBench is what bench kernels measures with, for each level.
type kernelBench struct {
	threads int
	time    time.Duration // of each measurement
	bytes   int           // of weights that each thread streams: more than its caches
	rows, k int           // of the matrix of products with many tokens
	tokens  int
}

// levelReport is what a level of instructions does on this machine.
type levelReport struct {
	Level   string `json:"level"`
	Threads int    `json:"threads"`
	// Read is the bandwidth of reading memory forwards, Peak and FloatPeak the operations
	// a second of the level's products of integers and of floats in registers, all of all
	// threads.
	Read      float64      `json:"read_bytes_per_second"`
	Peak      float64      `json:"peak_ops_per_second"`
	FloatPeak float64      `json:"float_peak_ops_per_second"`
	Forms     []formReport `json:"forms"`
}

// formReport is how near the products of a form come to what their level could do.
type formReport struct {
	Form      string  `json:"form"`
	Bits      float64 `json:"bits_per_weight"`
	GEMV      float64 `json:"gemv_bytes_per_second"`
	GEMVShare float64 `json:"gemv_share_of_read"`
	GEMM      float64 `json:"gemm_ops_per_second"`
	GEMMShare float64 `json:"gemm_share_of_peak"` // of floats for F16 and BF16
}

func newBenchKernels(t terminal) *cobra.Command {
	b := kernelBench{bytes: 96 << 20, rows: 1536, k: 1536, tokens: 64}
	var levels []string
	var asJSON bool
	command := &cobra.Command{
		Use:   "kernels [flags]",
		Short: "Measure the matrix products against the machine's bounds",
		Long: `Measure how near the matrix products come to what this processor can do. Products with
one token (GEMV, an output) are bound by reading the weights, so they are compared with the
bandwidth of a plain read; products with 64 (GEMM, a prompt) by arithmetic, so they are
compared with the level's integer multiply-adds in registers: VPMADDUBSW with VPADDW for
avx2, VPDPBUSD for the VNNI levels, TDPBSSD of whole tiles for amx, whose products are bound
by what comes after; of F16 and BF16, which compute in floats, with its float multiply-adds.
All bounds are measured in the same run.

The best of many short runs counts. Each thread streams weights of its own.`,
		Example: `  wasmeter bench kernels
  wasmeter bench kernels --level avx2,generic --threads 1 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if b.threads == 0 {
				b.threads = runtime.GOMAXPROCS(0)
			}
			if b.threads < 0 || b.threads > 1024 || b.time <= 0 || b.time > time.Minute {
				return fmt.Errorf("--threads %d is not in 0 … 1024, or --time %v not in 1ns … 1m", b.threads, b.time)
			}
			ops, err := benchLevels(levels)
			if err != nil {
				return err
			}
			var reports []levelReport
			for _, o := range ops {
				reports = append(reports, b.run(o))
			}
			if asJSON {
				return json.NewEncoder(t.out).Encode(reports)
			}
			return printKernels(t.out, reports)
		},
	}
	f := command.Flags()
	f.StringSliceVar(&levels, "level", nil, "levels to measure; default all that this machine has, but generic")
	f.IntVarP(&b.threads, "threads", "t", 0, "threads; 0 takes the free cores")
	f.DurationVar(&b.time, "time", 200*time.Millisecond, "time of each measurement")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

// benchLevels returns the kernels of the named levels.
func benchLevels(names []string) ([]*kernels.Ops, error) {
	levels := kernels.Levels()
	if len(levels) > 1 {
		levels = levels[1:] // generic is for machines that have nothing else
	}
	if len(names) > 0 {
		levels = nil
		for _, name := range names {
			level, err := kernels.ParseLevel(name)
			if err != nil {
				return nil, fmt.Errorf("--level: %w", err)
			}
			levels = append(levels, level)
		}
	}
	var ops []*kernels.Ops
	for _, level := range levels {
		o, err := kernels.Select(level)
		if err != nil {
			return nil, fmt.Errorf("--level: %w", err)
		}
		ops = append(ops, o)
	}
	return ops, nil
}

// product is one form's matrix product.
type product struct {
	name   string
	floats bool // computes in them
	bytes  func(rows, k int) int
	matMul func(d *benchThread, w []byte, groups, tokens int)
}

// benchThread is a thread's own data.
type benchThread struct {
	weights []byte
	out, x  []float32 // [tokens, rows] and [tokens, k]
	quants  []int8
	meta    []kernels.Meta
}

func (b kernelBench) run(o *kernels.Ops) levelReport {
	threads := make([]benchThread, b.threads)
	for i := range threads {
		d := &threads[i]
		// Small weights that are no zeros: every 16-bit float of these bytes is normal.
		d.weights = make([]byte, b.bytes)
		adviseHuge(d.weights) // as the backend does
		for j := range d.weights {
			d.weights[j] = 0x11
		}
		d.x, d.out = make([]float32, b.tokens*b.k), make([]float32, b.tokens*b.rows)
		for j := range d.x {
			d.x[j] = float32(j%17) - 8
		}
		d.quants, d.meta = make([]int8, len(d.x)), make([]kernels.Meta, len(d.x)/kernels.BlockColumns)
		o.Quantize(d.quants, d.meta, d.x)
	}
	report := levelReport{Level: o.Level().String(), Threads: b.threads}
	report.Read = b.best(threads, float64(b.bytes), func(d *benchThread) { o.Read(d.weights) })
	perCall := float64(o.PeakOps())
	report.Peak = b.best(threads, 100*perCall, func(*benchThread) {
		for range 100 {
			o.PeakOps()
		}
	})
	perCall = float64(o.PeakFloatOps())
	report.FloatPeak = b.best(threads, 100*perCall, func(*benchThread) {
		for range 100 {
			o.PeakFloatOps()
		}
	})
	for _, p := range b.products(o) {
		matrix := p.bytes(b.rows, b.k)
		num := b.bytes / matrix
		r := formReport{Form: p.name, Bits: float64(8*matrix) / float64(b.rows*b.k)}
		r.GEMV = b.best(threads, float64(num*matrix), func(d *benchThread) {
			for i := range num {
				p.matMul(d, d.weights[i*matrix:], b.rows/kernels.GroupRows, 1)
			}
		})
		r.GEMM = b.best(threads, 2*float64(b.tokens*b.rows*b.k), func(d *benchThread) {
			p.matMul(d, d.weights, b.rows/kernels.GroupRows, b.tokens)
		})
		r.GEMVShare, r.GEMMShare = r.GEMV/report.Read, r.GEMM/report.Peak
		if p.floats {
			r.GEMMShare = r.GEMM / report.FloatPeak
		}
		report.Forms = append(report.Forms, r)
	}
	return report
}

func (b kernelBench) products(o *kernels.Ops) []product {
	var products []product
	for _, form := range kernels.Forms() {
		products = append(products, product{form.String(), false, form.Bytes, func(d *benchThread, w []byte, groups, tokens int) {
			o.MatMul(form, d.out, b.rows, w[:form.Bytes(b.rows, b.k)], groups, d.quants, d.meta, tokens, b.k)
		}})
	}
	for _, half := range []struct {
		name   string
		matMul func(out []float32, ldo int, w []byte, groups int, x []float32, tokens, k int)
	}{{"F16", o.MatMulF16}, {"BF16", o.MatMulBF16}} {
		products = append(products, product{half.name, true, kernels.PackedHalfBytes, func(d *benchThread, w []byte, groups, tokens int) {
			half.matMul(d.out, b.rows, w[:kernels.PackedHalfBytes(b.rows, b.k)], groups, d.x, tokens, b.k)
		}})
	}
	slices.SortStableFunc(products, func(x, y product) int { return x.bytes(16, 256) - y.bytes(16, 256) })
	return products
}

// best runs work, of so many units, on all threads at once, again and again, and returns
// the most units a second of all together.
func (b kernelBench) best(threads []benchThread, units float64, work func(d *benchThread)) float64 {
	best := 0.0
	for end, i := time.Now().Add(b.time), 0; i < 2 || time.Now().Before(end); i++ {
		start := time.Now()
		var done sync.WaitGroup
		for i := range threads[1:] {
			done.Go(func() { work(&threads[i+1]) })
		}
		work(&threads[0])
		done.Wait()
		best = max(best, units*float64(len(threads))/time.Since(start).Seconds())
	}
	return best
}

func printKernels(out io.Writer, reports []levelReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range reports {
		fmt.Fprintf(w, "%s, %d threads: reads %.1f GB/s, peak %.0f GOPS of integers, %.0f of floats\n", r.Level, r.Threads, r.Read/1e9, r.Peak/1e9, r.FloatPeak/1e9)
		fmt.Fprintln(w, "form\tbits\tGEMV GB/s\tof read\tGEMM GOPS\tof peak\t")
		for _, f := range r.Forms {
			fmt.Fprintf(w, "%s\t%.2f\t%.1f\t%.0f %%\t%.0f\t%.0f %%\t\n", f.Form, f.Bits, f.GEMV/1e9, 100*f.GEMVShare, f.GEMM/1e9, 100*f.GEMMShare)
		}
	}
	return w.Flush()
}
