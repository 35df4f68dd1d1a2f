//go:build cuda && cgo && linux

package emu_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// The driver's results for kernels that go wrong. Source: cuda.h, cudaError_enum.
const (
	invalidValue   driver.Result = 1
	illegalAddress driver.Result = 700
	assertFailed   driver.Result = 710
	misaligned     driver.Result = 716
	launchFailed   driver.Result = 719
)

// result is what the driver returned.
func result(err error) driver.Result {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Result
	}
	return 0
}

// diagnostic is a probe, what makes it wrong, and what the emulator must say then.
// The probe's last parameter is wrong; with 0 it must run and be told nothing of.
type diagnostic struct {
	name    string
	kernel  string
	wrong   uint64
	result  driver.Result
	says    string
	checked bool // only the checked build sees it
	copies  bool // the probe reads a second buffer
	shared  int  // bytes of dynamic shared memory
	words   int  // of each buffer; 0 is 64, a word for each thread
}

var diagnostics = []diagnostic{
	{name: "out of bounds", kernel: "probe_bounds", wrong: 1, result: illegalAddress, checked: true,
		says: "kernel probe_bounds block (0,0,0) thread (63,0,0): out of bounds: write of 4 bytes at +256 of an allocation of 256 bytes"},
	{name: "below an allocation", kernel: "probe_below", wrong: 1, result: illegalAddress, checked: true, says: "thread (0,0,0): "},
	{name: "misaligned", kernel: "probe_alignment", wrong: 1, result: misaligned, checked: true, says: "misaligned access at "},
	{name: "misaligned vector", kernel: "probe_vector_alignment", wrong: 1, result: misaligned, checked: true, says: "which is no multiple of 16"},
	{name: "another thread's stack", kernel: "probe_stack", wrong: 1, result: illegalAddress, checked: true, says: "another thread's local memory"},
	{name: "assert", kernel: "probe_assert", wrong: 1, result: assertFailed, says: "assertion y && !wrong"},
	{name: "trap", kernel: "probe_trap", wrong: 1, result: launchFailed, says: "thread (5,0,0): __trap"},

	{name: "out of dynamic shared memory", kernel: "probe_dynamic_bounds", wrong: 1, shared: 256, result: illegalAddress, checked: true,
		says: "thread (63,0,0): out of bounds: write of 4 bytes at +256 of 256 bytes of dynamic shared memory"},
	{name: "uninitialised shared memory", kernel: "probe_uninitialised", wrong: 1, result: launchFailed, checked: true,
		says: "thread (23,0,0): read of 4 bytes of static shared memory"},
	{name: "read after write", kernel: "probe_read_after_write", wrong: 1, result: launchFailed, checked: true, says: "race: "},
	{name: "write after read", kernel: "probe_write_after_read", wrong: 1, result: launchFailed, checked: true, says: "race: "},
	{name: "write after many reads", kernel: "probe_write_after_reads", wrong: 1, result: launchFailed, checked: true,
		says: "race: "},
	{name: "write after write", kernel: "probe_write_after_write", wrong: 1, result: launchFailed, checked: true,
		says: "thread (33,0,0): race: write of 4 bytes of static shared memory"},
	{name: "race within a warp", kernel: "probe_warp_race", wrong: 1, result: launchFailed, checked: true, says: "static shared memory"},
	{name: "a warp's sync for a barrier", kernel: "probe_warp_sync_is_no_barrier", wrong: 1, result: launchFailed, checked: true, says: "static shared memory"},
	{name: "a shuffle for a sync", kernel: "probe_shuffle_is_no_fence", wrong: 1, result: launchFailed, checked: true, says: "race: "},
	{name: "read after an atomic", kernel: "probe_atomic_race", wrong: 1, result: launchFailed, checked: true, says: "race: "},
	{name: "out of an array", kernel: "probe_array_bounds", wrong: 1, result: illegalAddress, checked: true, says: "index 64 is out of the array's bounds"},
	{name: "shift", kernel: "probe_shift", wrong: 1, result: launchFailed, checked: true, says: "shift by 32"},
	{name: "division", kernel: "probe_division", wrong: 1, result: launchFailed, checked: true, says: "division of integers by zero"},

	{name: "cp.async read before its wait", kernel: "probe_copy", wrong: 1, copies: true, words: 256, result: launchFailed, checked: true, says: "cp.async to it is under way"},
	{name: "cp.async read before a barrier", kernel: "probe_copy", wrong: 2, copies: true, words: 256, result: launchFailed, checked: true, says: "shared memory"},
	{name: "cp.async never waited for", kernel: "probe_copy", wrong: 3, copies: true, words: 256, result: launchFailed, checked: true,
		says: "returns with 1 cp.async copies that it never waited for"},
	{name: "cp.async never committed", kernel: "probe_copy", wrong: 4, copies: true, words: 256, result: launchFailed, checked: true, says: "cp.async to it is under way"},
	{name: "the wrong cp.async stage", kernel: "probe_copy_groups", wrong: 1, copies: true, words: 128, result: launchFailed, checked: true, says: "cp.async to it is under way"},
	{name: "cp.async to global memory", kernel: "probe_copy_address", wrong: 1, copies: true, result: illegalAddress, checked: true, says: "which is not shared memory"},
	{name: "cp.async from shared memory", kernel: "probe_copy_address", wrong: 2, copies: true, result: illegalAddress, checked: true, says: "cp.async from "},
	{name: "cp.async misaligned", kernel: "probe_copy_address", wrong: 3, copies: true, result: misaligned, checked: true, says: "misaligned read of 16 bytes"},

	{name: "mask without the lane", kernel: "probe_own_bit", wrong: 1, result: launchFailed, says: "calls a shuffle without its own bit in mask fffffffe"},
	{name: "mask with returned lanes", kernel: "probe_returned_lanes", wrong: 1, result: launchFailed, says: "mask ffffffff"},
	{name: "shuffle from outside the mask", kernel: "probe_source_lane", wrong: 1, result: launchFailed, checked: true, says: "shuffle reads lane 20, which is not in mask 0000ffff"},
	{name: "different masks", kernel: "probe_mask_difference", wrong: 1, result: launchFailed, checked: true, says: "in the same a shuffle"},
	{name: "different instructions", kernel: "probe_mixed_meeting", wrong: 1, result: launchFailed, checked: true, says: "is in a shuffle while lane"},
	{name: "deadlock", kernel: "probe_deadlock", wrong: 1, result: launchFailed, says: "deadlock"},
}

func TestDiagnostics(t *testing.T) {
	d := open(t)
	run := func(c diagnostic, wrong uint64) (string, error) {
		d.lib.Reset()
		words := max(c.words, 64)
		y, err := d.Alloc(int64(4 * words))
		d.must(err)
		x, err := d.Alloc(int64(4 * words))
		d.must(err)
		d.must(d.stream.Fill(y, 0, int64(4*words)))
		d.must(d.stream.Fill(x, 0, int64(4*words)))
		args := []uint64{uint64(y)}
		if c.copies {
			args = append(args, uint64(x))
		}
		d.must(d.launch(c.kernel, 1, 64, c.shared, append(args, wrong)...))
		err = d.stream.Sync()
		said := d.lib.Report()
		d.lib.Reset()
		d.must(d.Free(y))
		d.must(d.Free(x))
		return said, err
	}
	for _, c := range diagnostics {
		seen := !c.checked || d.lib.Checked()
		var err error
		var said string
		if seen {
			said, err = run(c, c.wrong)
		}
		twinSaid, twinErr := run(c, 0)
		t.Run(c.name, func(t *testing.T) {
			if twinErr != nil || twinSaid != "" {
				t.Errorf("the right twin: %v\n%s", twinErr, twinSaid)
			}
			if !seen {
				t.Skip("the plain build does not see this")
			}
			if got := result(err); got != c.result {
				t.Errorf("got %v, want %v: %v", got, c.result, err)
			}
			if !strings.Contains(said, c.says) || !strings.Contains(said, "kernel "+c.kernel+" block (0,0,0) thread (") {
				t.Errorf("the report has no %q:\n%s", c.says, said)
			}
			if n := strings.Count(said, "\n"); n != 1 {
				t.Errorf("the report has %d lines, want 1:\n%s", n, said)
			}
		})
	}
}

// TestFreed is about memory after its end.
func TestFreed(t *testing.T) {
	d := open(t)
	y, x := d.memory(256), d.memory(256)
	freed, err := d.Alloc(256)
	d.must(err)
	d.must(d.Free(freed))
	if err := d.Free(freed); result(err) != invalidValue {
		t.Errorf("second Free: got %v, want CUDA_ERROR_INVALID_VALUE", err)
	}
	if r := d.lib.Report(); !strings.Contains(r, "which is freed already") {
		t.Errorf("second Free: the report is %q", r)
	}
	d.lib.Reset()
	if err := d.Free(x + 4); result(err) != invalidValue || !strings.Contains(d.lib.Report(), "not the start of an allocation") {
		t.Errorf("Free inside an allocation: got %v, report %q", err, d.lib.Report())
	}
	d.lib.Reset()
	if !d.lib.Checked() {
		t.Skip("the plain build does not see accesses")
	}
	d.must(d.launch("probe_read", 1, 64, 0, uint64(y), uint64(freed)))
	if err := d.stream.Sync(); result(err) != illegalAddress || !errors.Is(err, driver.ErrLost) {
		t.Errorf("read after Free: got %v, want CUDA_ERROR_ILLEGAL_ADDRESS", err)
	}
	if r := d.lib.Report(); !strings.Contains(r, "use after free: read of 4 bytes at +0 of an allocation of 256 bytes that was freed") {
		t.Errorf("read after Free: the report is %q", r)
	}
	// The failure stays until the context is gone.
	if _, err := d.Alloc(16); result(err) != illegalAddress {
		t.Errorf("Alloc after the failure: got %v, want CUDA_ERROR_ILLEGAL_ADDRESS", err)
	}
	d.lib.Reset()
	host := d.pinned(256)
	d.must(d.launch("probe_read", 1, 64, 0, uint64(y), addressOf(host.Bytes())))
	if err := d.stream.Sync(); result(err) != illegalAddress || !strings.Contains(d.lib.Report(), "which is not memory of the device") {
		t.Errorf("read of host memory: got %v, report %q", err, d.lib.Report())
	}
	d.lib.Reset()
	d.must(d.launch("probe_read", 1, 64, 0, uint64(y), 0))
	if err := d.stream.Sync(); result(err) != illegalAddress || !strings.Contains(d.lib.Report(), "which is not memory of the device") {
		t.Errorf("read of null: got %v, report %q", err, d.lib.Report())
	}
	d.lib.Reset()
}

// TestLeaks closes a device that has all kinds of things left.
func TestLeaks(t *testing.T) {
	d := open(t)
	_, err := d.Alloc(1000)
	d.must(err)
	_, err = d.Pinned(10)
	d.must(err)
	_, err = d.NewEvent()
	d.must(err)
	for _, c := range d.closers {
		d.must(c())
	}
	d.closers = nil
	d.must(d.Close())
	for _, want := range []string{
		"leak: 1 device allocations of 1000 bytes are live when the context is destroyed",
		"leak: 1 pinned buffers are live when the context is destroyed",
		"leak: 1 of kind event live when the context is destroyed",
	} {
		if r := d.lib.Report(); !strings.Contains(r, want) {
			t.Errorf("the report has no %q:\n%s", want, r)
		}
	}
	d.lib.Reset()
}
