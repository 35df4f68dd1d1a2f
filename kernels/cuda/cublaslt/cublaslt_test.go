//go:build cuda && cgo && linux

package cublaslt

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// What the products compute is checked by the cases of kernels/cuda/suite; here are
// loading, refusals, and what is kept.

// rig is the emulated device with its library.
type rig struct {
	t      *testing.T
	device *driver.Device
	stream *driver.Stream
	path   string
	memory driver.Ptr // 1 MiB of zeros
}

const rigBytes = 1 << 20

func newRig(t *testing.T) *rig {
	t.Helper()
	path := os.Getenv("WASMETER_CUDA_DRIVER")
	library, emulated := emu.LibraryPath(path)
	if path == "" || !emulated {
		t.Skip("needs the emulated CUDA driver and its cuBLASLt; `make cuda-test` runs this")
	}
	device, err := driver.Open(driver.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, device: device, path: library}
	r.do(device.Enter())
	r.stream, err = device.NewStream()
	r.do(err)
	r.memory, err = device.Alloc(rigBytes)
	r.do(err)
	r.do(r.stream.Fill(r.memory, 0, rigBytes))
	t.Cleanup(func() {
		r.do(errors.Join(r.stream.Sync(), device.Free(r.memory), r.stream.Close()))
		device.Leave()
		r.do(device.Close())
	})
	return r
}

func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) open() *Library {
	r.t.Helper()
	l, err := Open(r.path)
	r.do(err)
	r.t.Cleanup(func() { r.do(l.Close()) })
	return l
}

// operands lie one behind the other, with room for shapes of up to 64 in each size.
func (r *rig) operands() Operands {
	return Operands{W: r.memory, X: r.memory + rigBytes/4, Y: r.memory + rigBytes/2, Alpha: 1}
}

var small = Shape{Type: BF16, Rows: 32, Cols: 64, X: 17}

// TestCannotOpen: what was looked for, what was found, and what to do.
func TestCannotOpen(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name, path, faults string
		want               []string
	}{
		{"no such file", "/nonexistent/libcublasLt.so", "", []string{"/nonexistent/libcublasLt.so", "No such file", "pip install nvidia-cublas", "WASMETER_CUBLASLT", "--cublaslt off"}},
		{"another library", os.Getenv("WASMETER_CUDA_DRIVER"), "", []string{"has no function cublasLtGetVersion"}},
		{"an old one", r.path, "version=111103", []string{"too old", "version 11.11.3", "12.0.0 or later"}},
		{"one that does not start", r.path, "create=3", []string{"start " + r.path, "cublasLtCreate", "CUBLAS_STATUS_ALLOC_FAILED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CUBLASLT_EMU", c.faults)
			l, err := Open(c.path)
			if err == nil {
				t.Fatal("it opened", l.Close())
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			var missing *NotFoundError
			if errors.As(err, &missing) == (c.name == "one that does not start") {
				t.Errorf("error %#v", err)
			}
		})
	}
	t.Run("the ordinary names", func(t *testing.T) {
		defer func(list []string) { names = list }(names)
		names = []string{"libcublasLt-of-nobody.so.13", "libcublasLt-of-nobody.so.12"}
		_, err := Open("")
		var missing *NotFoundError
		if !errors.As(err, &missing) || len(missing.Tried) != 2 || !strings.Contains(err.Error(), names[0]) || !strings.Contains(err.Error(), names[1]) {
			t.Errorf("error %v", err)
		}
		names = []string{"libcublasLt-of-nobody.so.13", r.path}
		l, err := Open("")
		r.do(err)
		if l.Path() != r.path || l.Version() != "12.8.4" {
			t.Errorf("opened %s, version %s", l.Path(), l.Version())
		}
		r.do(l.Close())
	})
}

// TestNoKernel: a shape without a kernel says so, by its name and the status's, each
// time, and is asked for once.
func TestNoKernel(t *testing.T) {
	for _, c := range []struct {
		faults, want string
		unsupported  bool
	}{
		{"unsupported=32", "CUBLAS_STATUS_NOT_SUPPORTED", true},
		{"heuristic=7", "CUBLAS_STATUS_INVALID_VALUE", false},
	} {
		t.Run(c.faults, func(t *testing.T) {
			r := newRig(t)
			l := r.open()
			t.Setenv("CUBLASLT_EMU", c.faults)
			err := l.Prepare(small)
			if errors.Is(err, ErrUnsupported) != c.unsupported || err == nil {
				t.Fatalf("error %v", err)
			}
			for _, part := range []string{"17 rows × [32, 64]ᵀ of BF16", "cublasLtMatmulAlgoGetHeuristic", c.want} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			t.Setenv("CUBLASLT_EMU", "")
			if again := l.Multiply(r.stream, small, r.operands()); again != err {
				t.Errorf("the second time: %v, want the same error", again)
			}
			other := small
			other.Rows = 64
			r.do(l.Multiply(r.stream, other, r.operands()))
			// Another workspace is another question.
			l.UseWorkspace(0, 0)
			r.do(l.Multiply(r.stream, small, r.operands()))
		})
	}
}

// TestFailingProduct: the error has the product, the call and the status, and the next
// product is not touched by it.
func TestFailingProduct(t *testing.T) {
	r := newRig(t)
	l := r.open()
	t.Setenv("CUBLASLT_EMU", "matmul=13")
	err := l.Multiply(r.stream, small, r.operands())
	var failure *Error
	if !errors.As(err, &failure) || failure.Shape != small || failure.Call != "cublasLtMatmul" || failure.Status != 13 || !strings.Contains(err.Error(), "CUBLAS_STATUS_EXECUTION_FAILED") {
		t.Errorf("error %v", err)
	}
	t.Setenv("CUBLASLT_EMU", "")
	r.do(l.Multiply(r.stream, small, r.operands()))
}

// TestRefusals: what cuBLASLt would compute wrongly, or take for granted.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	l := r.open()
	shifted, bias := r.operands(), r.operands()
	shifted.X += 16
	bias.Bias = r.memory
	biased := small
	biased.Biased = true
	for _, c := range []struct {
		name  string
		shape Shape
		o     Operands
		want  string
	}{
		{"not aligned", small, shifted, "aligned to 256"},
		{"a bias of a shape without", small, bias, "bias"},
		{"no bias", biased, r.operands(), "bias"},
		{"no rows", Shape{Rows: 32, Cols: 64}, r.operands(), "nothing to multiply"},
	} {
		if err := l.Multiply(r.stream, c.shape, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestMissingWait: a product is work of its stream alone, so that the checked driver
// finds one which reads what another stream writes; with an event between them it is
// silent.
func TestMissingWait(t *testing.T) {
	r := newRig(t)
	lib, err := emu.Load(os.Getenv("WASMETER_CUDA_DRIVER"))
	r.do(err)
	if !lib.Checked() {
		t.Skip("the plain emulated driver does not look for it")
	}
	l := r.open()
	other, err := r.device.NewStream()
	r.do(err)
	event, err := r.device.NewEvent()
	r.do(err)
	defer func() { r.do(errors.Join(other.Close(), event.Close())) }()
	operands := r.operands()
	r.do(r.stream.Sync())
	lib.Reset()
	for _, waits := range []bool{true, false} {
		r.do(other.Fill(operands.X, 0, 4096))
		r.do(other.Record(event))
		if waits {
			r.do(r.stream.Wait(event))
		}
		r.do(l.Multiply(r.stream, small, operands))
		err := errors.Join(r.stream.Sync(), other.Sync())
		if report := lib.Report(); (err == nil) != waits || strings.Contains(report, "an event is missing") == waits {
			t.Errorf("waits: %v; error %v, the report: %q", waits, err, report)
		}
		lib.Reset()
	}
}

// TestPlans: shapes are kept, up to a number, the oldest goes first, and one that is
// known costs no memory.
func TestPlans(t *testing.T) {
	r := newRig(t)
	l := r.open()
	shape := small
	for x := range 2*maxPlans + 3 {
		shape.X = x%64 + 1
		shape.Cols = 32 + x/64
		r.do(l.Prepare(shape))
		if len(l.plans) != len(l.order) || len(l.plans) > maxPlans {
			t.Fatalf("%d plans, %d in order, after %d shapes", len(l.plans), len(l.order), x+1)
		}
	}
	if first := (Shape{Type: BF16, Rows: 32, Cols: 32, X: 1}); l.plans[first] != nil {
		t.Error("the first shape is still kept")
	}
	operands := r.operands()
	if n := testing.AllocsPerRun(20, func() { r.do(l.Multiply(r.stream, shape, operands)) }); n != 0 {
		t.Errorf("%v allocations a product, want none", n)
	}
}
