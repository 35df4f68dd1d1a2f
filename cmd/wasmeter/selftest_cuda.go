//go:build cuda && cgo && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/wasmeter/wasmeter/kernels/cuda/cublaslt"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/suite"
)

// selftest runs the kernels' suite on a device.
func selftest(ctx context.Context, o selftestOptions, ordinal int) (report *selftestReport, err error) {
	device, err := driver.Open(driver.Options{Path: os.Getenv(envDriver), Ordinal: ordinal})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if err := device.Enter(); err != nil {
		return nil, err
	}
	defer device.Leave()
	bench, err := suite.NewBench(device)
	if err != nil {
		return nil, err
	}
	major, minor := device.Capability()
	report = &selftestReport{Device: device.Name(), Driver: device.Version(), Capability: fmt.Sprintf("%d.%d", major, minor), Speeds: []selftestSpeed{}}
	report.PeakGBs, report.PeakTFLOPS = peaks(device, major, minor)
	cases, speeds := suite.Cases(), suite.Speeds()
	library, err := cublaslt.Open(os.Getenv(envCuBLASLt))
	if err != nil {
		report.CuBLASLt = err.Error()
	} else {
		defer func() { err = errors.Join(err, library.Close()) }()
		report.CuBLASLt = library.Path() + ", version " + library.Version()
		cases = append(cases, suite.LibraryCases(library)...)
		speeds = append(speeds, suite.LibrarySpeeds(library)...)
	}
	for _, c := range cases {
		if !strings.Contains(c.Kernel, o.only) {
			continue
		}
		err := bench.Check(c)
		report.add(c.Kernel, c.Name, err)
		if report.stopped(ctx, err) {
			return report, nil // what the device still holds is gone with it
		}
	}
	for _, s := range speeds {
		if !strings.Contains(s.Kernel, o.only) {
			continue
		}
		m, err := bench.Measure(s, o.shrink)
		row := selftestSpeed{Kernel: s.Kernel, Size: s.Name}
		if err != nil {
			row.Failure = err.Error()
		} else {
			row.Microseconds, row.GBs, row.TFLOPS = float64(m.Time.Nanoseconds())/1e3, m.BytesPerSecond()/1e9, m.FLOPS()/1e12
		}
		report.Speeds = append(report.Speeds, row)
		if report.stopped(ctx, err) {
			return report, nil
		}
	}
	return report, bench.Close()
}

// stopped tells whether nothing more can be run.
func (r *selftestReport) stopped(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, driver.ErrLost):
		r.Stopped = err.Error()
	case ctx.Err() != nil:
		r.Stopped = "interrupted"
	}
	return r.Stopped != ""
}

// bf16PerClock is the number of bf16 operations (a multiplication and an addition are
// two) that the tensor cores of a multiprocessor do in a clock, without sparsity.
// Source: the peaks of NVIDIA's data sheets over multiprocessors times boost clock:
// A100 312 TFLOPS / (108 · 1.41 GHz); A10 125 / (72 · 1.695); L4 121 / (58 · 2.04);
// H100 SXM 989 / (132 · 1.83); B200 2250 / (148 · 1.85).
var bf16PerClock = map[[2]int]float64{{8, 0}: 2048, {8, 6}: 1024, {8, 9}: 1024, {9, 0}: 4096, {10, 0}: 8192}

// peaks are the device's memory bandwidth and bf16 products, 0 where it doesn't say.
func peaks(d *driver.Device, major, minor int) (gbs, tflops float64) {
	attribute := func(a driver.Attribute) float64 {
		n, err := d.Attribute(a)
		if err != nil {
			return 0
		}
		return float64(n)
	}
	// Two transfers a clock; kHz, and bits of the bus.
	gbs = attribute(driver.MemoryClockRate) * 1e3 * 2 * attribute(driver.MemoryBusWidth) / 8 / 1e9
	tflops = attribute(driver.Multiprocessors) * attribute(driver.ClockRate) * 1e3 * bf16PerClock[[2]int{major, minor}] / 1e12
	return gbs, tflops
}

// add enters a case's result into its kernel's row. Cases of a kernel are neighbours.
func (r *selftestReport) add(kernel, name string, err error) {
	if n := len(r.Kernels); n == 0 || r.Kernels[n-1].Kernel != kernel {
		r.Kernels = append(r.Kernels, selftestKernel{Kernel: kernel, Failures: []string{}})
	}
	row := &r.Kernels[len(r.Kernels)-1]
	if err == nil {
		row.Passed++
		return
	}
	row.Failures = append(row.Failures, name+": "+err.Error())
}
