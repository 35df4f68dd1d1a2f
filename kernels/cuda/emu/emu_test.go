//go:build cuda && cgo && linux

package emu_test

import (
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
	"github.com/wasmeter/wasmeter/kernels/cuda/emu"
)

// fatbinOfNothing is a header without code. The probes are compiled into the
// emulator, and an image is compared with them only where it has something to show.
const fatbinOfNothing = "\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// device is an open emulated device with its probes.
type device struct {
	*driver.Device
	t       testing.TB
	lib     *emu.Library
	module  *driver.Module
	stream  *driver.Stream
	closers []func() error
}

// usual is how a test finds the emulator, whatever the one before it did.
const usual = "quiet=1,devices=1,version=13000,capability=8.0,alloc=0,launch=0,memory=4G"

// libraryPath is the driver that WASMETER_CUDA_DRIVER names, or the checked
// emulator: a process can load one.
func libraryPath(t testing.TB) string {
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

// open opens the device. The test fails if it leaks, or if the emulator has
// something to report that the test did not ask about.
func open(t testing.TB) *device {
	t.Helper()
	path := libraryPath(t)
	lib, err := emu.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	lib.Reset()
	if err := lib.Configure(usual); err != nil {
		t.Fatal(err)
	}
	opened, err := driver.Open(driver.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	d := &device{Device: opened, t: t, lib: lib}
	d.must(d.Enter())
	d.module, err = d.Load([]byte(fatbinOfNothing))
	d.must(err)
	d.stream, err = d.NewStream()
	d.must(err)
	d.closers = append(d.closers, d.module.Close, d.stream.Close)
	t.Cleanup(func() {
		for _, c := range d.closers {
			if err := c(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		d.Leave()
		if err := d.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
		if r := d.lib.Report(); r != "" {
			t.Errorf("the emulator reports:\n%s", r)
		}
	})
	return d
}

func (d *device) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.lib.Report())
	}
}

// memory is device memory for a test, freed at its end.
func (d *device) memory(bytes int) driver.Ptr {
	d.t.Helper()
	p, err := d.Alloc(int64(bytes))
	d.must(err)
	d.closers = append(d.closers, func() error { return d.Free(p) })
	return p
}

// zeros is memory that is cleared once the stream comes to it.
func (d *device) zeros(bytes int) driver.Ptr {
	d.t.Helper()
	p := d.memory(bytes)
	d.must(d.stream.Fill(p, 0, int64(bytes)))
	return p
}

func (d *device) pinned(bytes int) *driver.Pinned {
	d.t.Helper()
	p, err := d.Pinned(bytes)
	d.must(err)
	d.closers = append(d.closers, p.Free)
	return p
}

// up copies words to new memory of the device.
func (d *device) up(words ...uint32) driver.Ptr {
	d.t.Helper()
	p, host := d.memory(4*len(words)), d.pinned(4*len(words))
	for i, w := range words {
		binary.LittleEndian.PutUint32(host.Bytes()[4*i:], w)
	}
	d.must(d.stream.CopyToDevice(p, host, 0, 4*len(words)))
	d.must(d.stream.Sync())
	return p
}

// down copies words back.
func (d *device) down(p driver.Ptr, words int) []uint32 {
	d.t.Helper()
	host := d.pinned(4 * words)
	d.must(d.stream.CopyToHost(host, 0, p, 4*words))
	d.must(d.stream.Sync())
	got := make([]uint32, words)
	for i := range got {
		got[i] = binary.LittleEndian.Uint32(host.Bytes()[4*i:])
	}
	return got
}

// launch queues a probe.
func (d *device) launch(name string, blocks, threads, shared int, args ...uint64) error {
	d.t.Helper()
	f, err := d.module.Function(name)
	d.must(err)
	return d.stream.Launch(f, driver.Launch{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Shared: uint32(shared)}, args)
}

func TestAdd(t *testing.T) {
	d := open(t)
	y, x := d.up(1, 2, 3, 4, 5), d.up(10, 20, 30, 40, 50)
	d.must(d.launch("probe_add", 3, 2, 0, uint64(y), uint64(x), 5))
	for i, v := range d.down(y, 5) {
		if want := uint32(11 * (i + 1)); v != want {
			t.Errorf("element %d: got %d, want %d", i, v, want)
		}
	}
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
