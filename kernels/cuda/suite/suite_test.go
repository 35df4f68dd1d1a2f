//go:build cuda && cgo && linux

package suite

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// openBench opens the driver that WASMETER_CUDA_DRIVER names.
func openBench(t *testing.T) *Bench {
	path := os.Getenv("WASMETER_CUDA_DRIVER")
	if path == "" {
		t.Skip("WASMETER_CUDA_DRIVER names no CUDA driver; `make cuda-test` runs this on the emulated one")
	}
	d, err := driver.Open(driver.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Enter(); err != nil {
		t.Fatal(err)
	}
	b, err := NewBench(d)
	if err != nil {
		t.Fatal(errors.Join(err, d.Close()))
	}
	t.Cleanup(func() {
		err := b.Close()
		d.Leave()
		if err := errors.Join(err, d.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// each runs check for each of the named in a subtest of its own, where the device's
// context is current, until the device is lost.
func each[T any](t *testing.T, list []T, name func(T) string, check func(*Bench, T) error) {
	b := openBench(t)
	for _, item := range list {
		lost := false
		t.Run(name(item), func(t *testing.T) {
			if err := b.Device.Enter(); err != nil {
				t.Fatal(err)
			}
			defer b.Device.Leave()
			if err := check(b, item); err != nil {
				t.Error(err)
				lost = errors.Is(err, driver.ErrLost)
			}
		})
		if lost {
			t.Fatal("the device is lost: what comes after this did not run")
		}
	}
}

func TestCases(t *testing.T) {
	each(t, Cases(), func(c Case) string { return c.Kernel + "/" + c.Name }, (*Bench).Check)
}

// TestSpeeds runs what is timed, small; the times of an emulated device say nothing.
func TestSpeeds(t *testing.T) {
	each(t, Speeds(), func(s Speed) string { return s.Kernel + "/" + s.Name }, func(b *Bench, s Speed) error {
		m, err := b.Measure(s, 256)
		if err == nil && m.Bytes <= 0 {
			err = fmt.Errorf("work of %v bytes", m.Bytes)
		}
		return err
	})
}

// TestWrong: a bench that compares is told when the values are wrong, and that memory
// is given back when a case ends early.
func TestWrong(t *testing.T) {
	wrong := Case{"fill", "expects another value", func(b *Bench) error {
		const n = 5
		y := b.Empty(4 * n)
		b.Do(b.Kernels.Fill(b.Stream, y, 1, n))
		return Compare(b.ReadFloats(y, n), []float64{1, 1, 1, 1.001, 1}, n, summed)
	}}
	refused := Case{"attend_decode_64", "heads of no dimension", func(b *Bench) error {
		b.Zeros(16)
		b.Do(b.Kernels.Decode(b.Stream, 0, 0, 0, 0, 1, cuda.Attention{Heads: cuda.Heads{Q: 1, KV: 1, Dim: 7}, Cache: cuda.CacheLayer{BlockSize: 16}}))
		b.Zeros(16)
		return nil
	}}
	each(t, []Case{wrong, refused}, func(c Case) string { return c.Name }, func(b *Bench, c Case) error {
		err := b.Check(c)
		if err == nil {
			return errors.New("the case passed")
		}
		if len(b.buffers) > 0 {
			return fmt.Errorf("%d buffers are still taken after: %w", len(b.buffers), err)
		}
		return nil
	})
}

// TestLaunchesAllocateNothing: a decode step calls these methods.
func TestLaunchesAllocateNothing(t *testing.T) {
	b := openBench(t)
	b.prepare("allocations")
	defer b.finish()
	heads := cuda.Heads{Q: 2, KV: 1, Dim: 8}
	layer := cuda.Attention{Cache: cuda.CacheLayer{Keys: b.Zeros(4096), Values: b.Zeros(4096), BlockSize: 16}, Heads: heads, Table: b.Zeros(4), MaxBlocks: 1, Scale: 1}
	x, w, y, ints := b.Zeros(4096), b.Zeros(4096), b.Zeros(4096), b.Zeros(4096)
	scratch := b.Zeros(int(b.Kernels.DecodeScratch(heads.Dim)))
	for name, launch := range map[string]func() error{
		"Norm":    func() error { return b.Kernels.Norm(b.Stream, y, x, w, 1, 16, 1e-5) },
		"AddNorm": func() error { return b.Kernels.AddNorm(b.Stream, y, x, w, 1, 16, 1e-5) },
		"FinishQKV": func() error {
			return b.Kernels.FinishQKV(b.Stream, layer.Cache, x, y, y, w, w, ints, ints, 1, heads, cuda.Rope{Dims: 8, Freqs: w}, 1e-5)
		},
		"Decode": func() error { return b.Kernels.Decode(b.Stream, y, x, ints, scratch, 1, layer) },
		"FinishAndDecode": func() error {
			return b.Kernels.FinishAndDecode(b.Stream, y, x, ints, scratch, 1, layer, cuda.QKV{Key: w, Value: w, Fresh: ints, Rope: cuda.Rope{Dims: 8, Freqs: w}})
		},
		"AddNormNorm": func() error { return b.Kernels.AddNormNorm(b.Stream, y, y, x, w, w, 1, 16, 1e-5) },
		"Prefill":     func() error { return b.Kernels.Prefill(b.Stream, y, x, ints, 1, 1, layer) },
		"SiLUUp":      func() error { return b.Kernels.SiLUUp(b.Stream, y, x, w, 16) },
		"Add":         func() error { return b.Kernels.Add(b.Stream, y, x, 16) },
	} {
		if n := testing.AllocsPerRun(20, func() { b.Do(launch()) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	b.Sync()
	if b.err != nil {
		t.Error(b.err)
	}
}
