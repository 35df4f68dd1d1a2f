//go:build cuda && cgo && linux

package driver_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// emptyImage is the header of a fat binary without code: the emulated driver has
// its kernels compiled in.
const emptyImage = "\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// elements is the length of the vectors that probe_add adds.
const elements = 1000

// bench is an open emulated device, with what most tests need.
type bench struct {
	*driver.Device
	t      testing.TB
	lib    *emu.Library
	stream *driver.Stream
	add    *driver.Function // probe_add(int* y, const int* x, int n): y[i] += x[i]
	x, y   driver.Ptr
	host   *driver.Pinned // [elements] int32
}

// open opens the driver that WASMETER_CUDA_DRIVER names, the checked emulator if
// none is named: a process has one. Each test must leave nothing on the device.
func open(t testing.TB) *bench {
	t.Helper()
	path := driverPath(t)
	lib, err := emu.Load(path)
	if err != nil {
		t.Skipf("this test needs the emulated driver: %v", err)
	}
	lib.Reset()
	if err := lib.Configure("quiet=1,devices=1,version=13000,capability=8.0,alloc=0,launch=0,memory=64M"); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, lib: lib}
	b.Device, err = driver.Open(driver.Options{Path: path})
	b.must(err)
	b.must(b.Enter())
	b.stream, err = b.NewStream()
	b.must(err)
	module, err := b.Load([]byte(emptyImage))
	b.must(err)
	b.add, err = module.Function("probe_add")
	b.must(err)
	b.x, err = b.Alloc(4 * elements)
	b.must(err)
	b.y, err = b.Alloc(4 * elements)
	b.must(err)
	b.host, err = b.Pinned(4 * elements)
	b.must(err)
	t.Cleanup(func() {
		lib.Reset() // a device that was lost gives nothing back
		b.must(errors.Join(b.host.Free(), b.Free(b.x), b.Free(b.y), module.Close(), b.stream.Close()))
		b.Leave()
		b.must(b.Close())
		b.must(b.Close()) // a second time is nothing
		if report := lib.Report(); report != "" {
			t.Errorf("the emulated driver reports:\n%s", report)
		}
	})
	return b
}

// driverPath is the library that the tests open.
func driverPath(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("WASMETER_CUDA_DRIVER"); path != "" {
		return path
	}
	path, err := emu.Path(true)
	if err != nil {
		t.Skip(err)
	}
	return path
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.lib.Report())
	}
}

// fault expects an error that says all of the words.
func (b *bench) fault(err error, words ...string) {
	b.t.Helper()
	says(b.t, err, words...)
}

func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

// shape is a launch of probe_add over all elements.
var shape = driver.Launch{Grid: [3]uint32{(elements + 255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}}

// launch queues y += x.
func (b *bench) launch() error {
	return b.stream.Launch(b.add, shape, []uint64{uint64(b.y), uint64(b.x), elements})
}

// start sets x to 1, 2, 3, … and y to 0, and waits.
func (b *bench) start() {
	b.t.Helper()
	for i := range elements {
		binary.LittleEndian.PutUint32(b.host.Bytes()[4*i:], uint32(i+1))
	}
	b.must(b.stream.CopyToDevice(b.x, b.host, 0, 4*elements))
	b.must(b.stream.Fill(b.y, 0, 4*elements))
	b.must(b.stream.Sync())
}

// expect copies y back and compares it with times·(1, 2, 3, …).
func (b *bench) expect(times int) {
	b.t.Helper()
	b.must(b.stream.CopyToHost(b.host, 0, b.y, 4*elements))
	b.must(b.stream.Sync())
	for i := range elements {
		if got, want := binary.LittleEndian.Uint32(b.host.Bytes()[4*i:]), uint32(times*(i+1)); got != want {
			b.t.Fatalf("y[%d] = %d, want %d", i, got, want)
		}
	}
}

func TestDevice(t *testing.T) {
	b := open(t)
	if major, minor := b.Capability(); major != 8 || minor != 0 {
		t.Errorf("capability %d.%d, want 8.0", major, minor)
	}
	if got := b.Version(); got != "13.0" {
		t.Errorf("version %q, want 13.0", got)
	}
	if !strings.Contains(b.Name(), "emulator") {
		t.Errorf("name %q", b.Name())
	}
	free, total, err := b.Memory()
	b.must(err)
	if total != 64<<20 || free <= 0 || free > total-8*elements {
		t.Errorf("memory %d of %d, want less than 64 MiB by what the test holds", free, total)
	}
	for attribute, least := range map[driver.Attribute]int{
		driver.Multiprocessors: 1, driver.ThreadsPerMultiprocessor: 1024, driver.SharedPerBlock: 96 << 10,
		driver.ClockRate: 1, driver.MemoryClockRate: 1, driver.MemoryBusWidth: 1, driver.L2Size: 1,
	} {
		if got, err := b.Attribute(attribute); err != nil || got < least {
			t.Errorf("attribute %d is %d, %v; want at least %d", attribute, got, err, least)
		}
	}
}

// TestLaunch goes the way of each step: copies in, kernels, copies out.
func TestLaunch(t *testing.T) {
	b := open(t)
	b.start()
	b.must(b.launch())
	b.must(b.launch())
	b.expect(2)
	// A copy within the device, and parts of pinned memory at both ends.
	b.must(b.stream.CopyOnDevice(b.x, b.y, 4*elements))
	b.must(b.launch())
	b.expect(4)
	b.must(b.stream.CopyToDevice(b.y, b.host, 4*(elements-1), 4))
	b.must(b.stream.CopyToHost(b.host, 4, b.y, 4))
	b.must(b.stream.Sync())
	if got := binary.LittleEndian.Uint32(b.host.Bytes()[4:]); got != 4*elements {
		t.Errorf("got %d from the other end, want %d", got, 4*elements)
	}
	b.fault(b.stream.Launch(b.add, shape, make([]uint64, 100)), "probe_add", "100 arguments")
	b.fault(b.stream.Launch(b.add, driver.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{2048, 1, 1}}, []uint64{0, 0, 0}),
		"cuLaunchKernel", "CUDA_ERROR_INVALID_VALUE", "probe_add", "2048")
}

func TestCopyOutside(t *testing.T) {
	b := open(t)
	for _, at := range [][2]int{{4*elements - 3, 4}, {-1, 4}, {0, -1}, {math.MaxInt, 4}, {0, 4*elements + 1}} {
		b.fault(b.stream.CopyToDevice(b.x, b.host, at[0], at[1]), "pinned memory of 4000")
		b.fault(b.stream.CopyToHost(b.host, at[0], b.x, at[1]), "pinned memory of 4000")
	}
	gone, err := b.Pinned(16)
	b.must(err)
	b.must(gone.Free())
	b.must(gone.Free())
	b.fault(b.stream.CopyToHost(gone, 0, b.x, 1), "pinned memory of 0")
}

func TestEvents(t *testing.T) {
	b := open(t)
	from, err := b.NewEvent()
	b.must(err)
	to, err := b.NewEvent()
	b.must(err)
	other, err := b.NewStream()
	b.must(err)
	b.start()
	b.must(b.stream.Record(from))
	b.must(b.launch())
	b.must(b.stream.Record(to))
	if _, err := to.Since(from); err == nil {
		t.Error("the time of an event that is still to come, want an error")
	} else {
		b.fault(err, "cuEventElapsedTime", "CUDA_ERROR_NOT_READY", "Sync first")
	}
	// The other stream reads y once the first has added.
	b.must(other.Wait(to))
	b.must(other.CopyToHost(b.host, 0, b.y, 4*elements))
	b.must(other.Sync())
	if got := binary.LittleEndian.Uint32(b.host.Bytes()[4*99:]); got != 100 {
		t.Errorf("the other stream read %d, want 100", got)
	}
	b.must(to.Sync())
	if d, err := to.Since(from); err != nil || d < 0 {
		t.Errorf("since: %v, %v", d, err)
	}
	b.must(errors.Join(from.Close(), to.Close(), other.Close()))
}

func TestGraph(t *testing.T) {
	b := open(t)
	b.start()
	graph, err := b.stream.Capture(func() error { return errors.Join(b.launch(), b.launch(), b.launch()) })
	b.must(err)
	b.expect(0) // recording runs nothing
	b.must(b.stream.LaunchGraph(graph))
	b.must(b.stream.LaunchGraph(graph))
	b.expect(6)
	b.must(graph.Close())
	b.must(graph.Close())

	broken := errors.New("broken")
	if graph, err := b.stream.Capture(func() error { return errors.Join(b.launch(), broken) }); graph != nil || !errors.Is(err, broken) {
		t.Errorf("got %v and %v of a recording that failed, want its error", graph, err)
	}
	b.must(b.launch()) // the stream is as it was
	b.expect(7)
}

func TestOutOfMemory(t *testing.T) {
	b := open(t)
	_, err := b.Alloc(1 << 30)
	b.fault(err, "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "1.00 GiB asked", "of 64.00 MiB free", "free memory of the device")
	if errors.Is(err, driver.ErrLost) {
		t.Error("a device without memory is not lost")
	}
	var e *driver.Error
	if !errors.As(err, &e) || e.Result != driver.OutOfMemory {
		t.Errorf("the error is %#v", err)
	}
	_, err = b.Alloc(0)
	b.fault(err, "0 bytes asked")
	_, err = b.Alloc(-1)
	b.fault(err, "-1 bytes asked")
	_, err = b.Pinned(0)
	b.fault(err, "0 bytes asked")
	b.must(b.Free(0))
}

// TestLost: a kernel that goes wrong shows at the next wait, and in every call
// after it.
func TestLost(t *testing.T) {
	b := open(t)
	b.start()
	b.must(b.lib.Configure("launch=2"))
	err := errors.Join(b.launch(), b.launch())
	if err == nil {
		err = b.stream.Sync()
	}
	b.fault(err, "CUDA_ERROR_", "probe_add", "lost")
	for what, err := range map[string]error{
		"the wait": err, "a launch": b.launch(), "a copy": b.stream.CopyToDevice(b.x, b.host, 0, 4), "a wait": b.stream.Sync(),
	} {
		if !errors.Is(err, driver.ErrLost) {
			t.Errorf("%s after a fault: %v, want ErrLost", what, err)
		}
	}
}

func TestOutsideEnter(t *testing.T) {
	b := open(t)
	done := make(chan error)
	go func() { _, err := b.Alloc(16); done <- err }()
	b.fault(<-done, "CUDA_ERROR_INVALID_CONTEXT", "Enter")
}

func TestImages(t *testing.T) {
	b := open(t)
	for name, test := range map[string]struct {
		image string
		words []string
	}{
		"nothing":                {"", []string{"empty", "make cuda-kernels"}},
		"text":                   {"hello, kernels", []string{"hello", "neither a fat binary nor a cubin nor PTX"}},
		"half a header":          {emptyImage[:9], []string{"cut short", "9 bytes"}},
		"a cut fat binary":       {emptyImage[:8] + "\x00\x10\x00\x00\x00\x00\x00\x00" + "code", []string{"damaged", "4096"}},
		"a huge fat binary":      {emptyImage[:8] + "\xff\xff\xff\xff\xff\xff\xff\xff", []string{"damaged"}},
		"a header of no size":    {emptyImage[:6] + "\x00\x00" + emptyImage[8:], []string{"damaged"}},
		"half an ELF header":     {"\x7fELF\x02\x01", []string{"cut short", "6 bytes"}},
		"an ELF without its end": {"\x7fELF\x02" + strings.Repeat("\x01", 59), []string{"cut short"}},
		"PTX with a NUL":         {".version 9.0\n.target sm_80\n\x00", []string{"neither"}},
	} {
		if _, err := b.Load([]byte(test.image)); err == nil {
			t.Errorf("%s was loaded", name)
		} else {
			b.fault(err, test.words...)
		}
	}
}

func TestFunctions(t *testing.T) {
	b := open(t)
	module, err := b.Load([]byte(emptyImage))
	b.must(err)
	_, err = module.Function("nobody")
	b.fault(err, "cuModuleGetFunction", `no kernel "nobody"`, "make cuda-kernels")
	most, err := b.Attribute(driver.SharedPerBlock)
	b.must(err)
	f, err := module.Function("probe_add")
	b.must(err)
	b.must(f.AllowShared(most))
	b.fault(f.AllowShared(most+1), "cuFuncSetAttribute", "probe_add", "shared memory")
	if blocks, err := f.Occupancy(256, 0); err != nil || blocks < 1 {
		t.Errorf("occupancy %d, %v", blocks, err)
	}
	b.must(module.Close())
}

// TestHotPathAllocs: what a step calls allocates no Go memory.
func TestHotPathAllocs(t *testing.T) {
	b := open(t)
	b.start()
	from, err := b.NewEvent()
	b.must(err)
	to, err := b.NewEvent()
	b.must(err)
	graph, err := b.stream.Capture(b.launch)
	b.must(err)
	for name, call := range map[string]func() error{
		"Launch":       b.launch,
		"LaunchGraph":  func() error { return b.stream.LaunchGraph(graph) },
		"CopyToDevice": func() error { return b.stream.CopyToDevice(b.x, b.host, 4, 8) },
		"CopyToHost":   func() error { return b.stream.CopyToHost(b.host, 4, b.x, 8) },
		"CopyOnDevice": func() error { return b.stream.CopyOnDevice(b.y, b.x, 8) },
		"Fill":         func() error { return b.stream.Fill(b.y, 1, 8) },
		"Record":       func() error { return errors.Join(b.stream.Record(from), b.stream.Record(to)) },
		"Wait":         func() error { return b.stream.Wait(from) },
		"Sync":         b.stream.Sync,
		"Event.Sync":   to.Sync,
	} {
		var failed error
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				failed = err
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
		b.must(failed)
		b.must(b.stream.Sync())
	}
	b.must(errors.Join(b.stream.Record(from), b.stream.Record(to), b.stream.Sync()))
	if n := testing.AllocsPerRun(100, func() { _, err = to.Since(from) }); n != 0 || err != nil {
		t.Errorf("Since allocates %v times, %v", n, err)
	}
	b.must(errors.Join(graph.Close(), from.Close(), to.Close()))
}
