package cpu_test

import (
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
)

// BenchmarkNeighbour decodes with one thread and with one for each core, in turn,
// alone and beside a thread that wants the last core for itself. ratio is the
// speed of all threads against one in the same state: beside a neighbour it
// should not fall below 1, for then fewer threads would have been faster.
func BenchmarkNeighbour(b *testing.B) {
	const path = "../../../models/SmolLM2-135M-Instruct.Q4_1.gguf"
	if _, err := os.Stat(path); err != nil {
		b.Skip("needs the model: make model")
	}
	cores := runtime.NumCPU()
	if cores == 1 {
		b.Skip("needs two cores")
	}
	one, all := newDecoder(b, path, 1), newDecoder(b, path, cores)
	for _, c := range []struct {
		name    string
		disturb func() (stop func())
	}{
		{"none", func() func() { return func() {} }},
		{"one", func() func() { return occupy(b, cores-1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			defer c.disturb()()
			var speeds, ratios []float64
			for b.Loop() {
				x, y := one.speed(b), all.speed(b)
				speeds, ratios = append(speeds, y), append(ratios, y/x)
			}
			b.ReportMetric(middle(speeds), "tok/s")
			b.ReportMetric(middle(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// occupy keeps a core busy with a thread of its own until it is stopped.
func occupy(b *testing.B, core int) (stop func()) {
	procs := runtime.GOMAXPROCS(runtime.NumCPU() + 1) // it is no thread of ours
	var stopped atomic.Bool
	begun, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with it
		var set unix.CPUSet
		set.Set(core)
		begun <- unix.SchedSetaffinity(0, &set)
		for !stopped.Load() {
		}
		close(ended)
	}()
	if err := <-begun; err != nil {
		b.Fatal(err)
	}
	return func() {
		stopped.Store(true)
		<-ended
		runtime.GOMAXPROCS(procs)
	}
}

// decoder computes one sequence of a model.
type decoder struct {
	model  model.Model
	blocks []int32
	batch  backend.Batch
}

func newDecoder(b *testing.B, path string, threads int) *decoder {
	file, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	device, err := cpu.New(cpu.Options{Threads: threads})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // after the model's
		if err := file.Close(); err != nil {
			b.Error(err)
		}
	})
	m := backendtest.Load(b, file, device)
	if err := m.Reserve(4, 16); err != nil {
		b.Fatal(err)
	}
	var next int32
	return &decoder{model: m, blocks: backendtest.Blocks(&next, 64, 16)}
}

// speed is the tokens a second of 64 of them.
func (d *decoder) speed(b *testing.B) float64 {
	start := time.Now()
	for i := range 64 {
		d.batch.Reset()
		backendtest.Append(&d.batch, []int32{int32(i)}, i, d.blocks, 16)
		d.batch.Sample = append(d.batch.Sample, 0)
		if _, err := d.model.Forward(&d.batch); err != nil {
			b.Fatal(err)
		}
	}
	return 64 / time.Since(start).Seconds()
}

func middle(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}
