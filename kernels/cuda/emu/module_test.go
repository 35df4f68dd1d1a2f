//go:build cuda && cgo && linux

package emu_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// fatbinEntry is an entry as fatbinary writes it, uncompressed: kind 1 is PTX, 2 a
// cubin, and architecture 80 is sm_80.
func fatbinEntry(kind uint16, architecture uint32, data string) string {
	h := make([]byte, 64)
	binary.LittleEndian.PutUint16(h, kind)
	binary.LittleEndian.PutUint16(h[2:], 0x101)
	binary.LittleEndian.PutUint32(h[4:], 64)
	binary.LittleEndian.PutUint64(h[8:], uint64(len(data)))
	binary.LittleEndian.PutUint32(h[28:], architecture)
	return string(h) + data
}

func fatbin(entries ...string) string {
	body := strings.Join(entries, "")
	h := []byte(fatbinOfNothing)
	binary.LittleEndian.PutUint64(h[8:], uint64(len(body)))
	return string(h) + body
}

// ptx is an entry named probe_add with some parameters, as nvcc writes them.
func ptx(parameters string) string {
	return ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry probe_add(\n" + parameters + "\n)\n{ ret; }\n"
}

const addParameters = "\t.param .u64 .ptr .align 1 probe_add_param_0,\n\t.param .u64 .ptr .align 1 probe_add_param_1,\n\t.param .u32 probe_add_param_2"

// TestImages loads images that fit the kernels, that don't, and that fit no device.
func TestImages(t *testing.T) {
	d := open(t)
	const missing = "the image has no such entry"
	for name, c := range map[string]struct {
		image      string
		load, find driver.Result
		says       string
	}{
		"PTX":                        {ptx(addParameters), 0, 0, ""},
		"PTX in a fatbin":            {fatbin(fatbinEntry(1, 80, ptx(addParameters))), 0, 0, ""},
		"one parameter less":         {ptx(strings.Split(addParameters, ",\n\t.param .u32")[0]), 0, invalidImage, "parameters of 8 8 bytes, and the source of 8 8 4"},
		"one more":                   {ptx(addParameters + ",\n\t.param .f32 probe_add_param_3"), 0, invalidImage, "of 8 8 4 4 bytes"},
		"a wider one":                {fatbin(fatbinEntry(1, 80, ptx(strings.Replace(addParameters, ".u32", ".u64", 1)))), 0, invalidImage, "of 8 8 8 bytes"},
		"a struct":                   {ptx(strings.Replace(addParameters, ".param .u32 probe_add_param_2", ".param .align 4 .b8 probe_add_param_2[12]", 1)), 0, invalidImage, "of 8 8 12 bytes"},
		"another name":               {strings.ReplaceAll(ptx(addParameters), "probe_add", "probe_sub"), 0, notFound, missing},
		"a longer name":              {strings.ReplaceAll(ptx(addParameters), "probe_add", "probe_add_all"), 0, notFound, missing},
		"a cubin of the device":      {fatbin(fatbinEntry(2, 80, "code")), 0, 0, ""},
		"a cubin of a later one":     {fatbin(fatbinEntry(2, 90, "code")), noBinaryForGPU, 0, ""},
		"PTX of a later one":         {fatbin(fatbinEntry(1, 90, ptx(addParameters))), noBinaryForGPU, 0, ""},
		"a cubin of an earlier one":  {fatbin(fatbinEntry(2, 75, "code")), noBinaryForGPU, 0, ""},
		"half an entry":              {fatbin(fatbinEntry(2, 80, "")[:40]), invalidImage, 0, "the fatbin is damaged"},
		"an entry beyond the fatbin": {fatbin(strings.Replace(fatbinEntry(2, 80, "code"), "\x04", "\x05", 1)), invalidImage, 0, "the fatbin is damaged"},
	} {
		m, err := d.Load([]byte(c.image))
		if result(err) != c.load {
			t.Errorf("%s: load: got %v, want %v", name, err, c.load)
		}
		if err == nil {
			_, err := m.Function("probe_add")
			if result(err) != c.find {
				t.Errorf("%s: find: got %v, want %v", name, err, c.find)
			}
			d.must(m.Close())
		}
		if r := d.lib.Report(); !strings.Contains(r, c.says) || c.says == "" && r != "" {
			t.Errorf("%s: the report is %q, want %q in it", name, r, c.says)
		}
		d.lib.Reset()
	}
}
