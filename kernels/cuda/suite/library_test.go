//go:build cuda && cgo && linux

package suite

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/cublaslt"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// openLibrary opens the cuBLASLt of the driver under test: the emulated one's, or the
// host's if there is one.
func openLibrary(t *testing.T) *cublaslt.Library {
	path, emulated := emu.LibraryPath(os.Getenv("WASMETER_CUDA_DRIVER"))
	l, err := cublaslt.Open(path)
	var missing *cublaslt.NotFoundError
	if errors.As(err, &missing) && !emulated {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// eachWithLibrary is each for what needs cuBLASLt.
func eachWithLibrary[T any](t *testing.T, list func(*cublaslt.Library) []T, name func(T) string, check func(*Bench, T) error) {
	b := openBench(t)
	l := openLibrary(t)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, item := range list(l) {
		t.Run(name(item), func(t *testing.T) {
			if err := b.Device.Enter(); err != nil {
				t.Fatal(err)
			}
			defer b.Device.Leave()
			if err := check(b, item); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLibraryCases(t *testing.T) {
	eachWithLibrary(t, LibraryCases, func(c Case) string { return c.Name }, (*Bench).Check)
}

// TestLibrarySpeeds runs what is timed, small.
func TestLibrarySpeeds(t *testing.T) {
	eachWithLibrary(t, LibrarySpeeds, func(s Speed) string { return s.Kernel + "/" + s.Name }, func(b *Bench, s Speed) error {
		m, err := b.Measure(s, 512)
		if err == nil && (m.FLOPs <= 0 || m.Time <= 0) {
			err = fmt.Errorf("%v FLOPs in %v", m.FLOPs, m.Time)
		}
		return err
	})
}
