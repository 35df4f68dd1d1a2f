//go:build cuda && cgo && linux

package cuda_test

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
)

// TestWrongImages: a program with the kernels of another build, or a part of its own,
// says so when it opens the device, takes nothing with it, and leaves a device that
// another opens.
func TestWrongImages(t *testing.T) {
	const again = "make cuda-kernels"
	const ptx = ".version 9.0\n.target sm_80\n.address_size 64\n"
	const entry = ".visible .entry rms_norm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 d)\n{\n\tret;\n}\n"
	for _, c := range []struct {
		name  string
		image string
		want  []string
	}{
		{"none", "", []string{"empty", again}},
		{"the first half", string(cuda.Image()[:len(cuda.Image())/2]), []string{"damaged"}},
		{"a page of text", "<html>", []string{"<html>", "neither a fat binary nor"}},
		{"another program's", ptx + strings.ReplaceAll(entry, "rms_norm", "other"), []string{"no kernel", "rms_norm", again}},
		{"older sources", ptx + entry, []string{`kernel "rms_norm"`, "INVALID_IMAGE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := emulator(t, "")
			b, err := cuda.OpenImage(cuda.Options{Driver: driverPath(t), MaxRows: backendtest.MaxRows}, []byte(c.image))
			if err == nil {
				t.Fatal(b.Name(), b.Close())
			}
			for _, part := range append(c.want, "cuda backend", "kernels") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			if left := lib.Report(); strings.Contains(left, "leak") {
				t.Errorf("the emulator says of what is left:\n%s", left)
			}
			forward(t, load(t, backendtest.TinyFile(t), open(t)), decodeBatch(1, 0))
		})
	}
}
