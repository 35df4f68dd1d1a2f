//go:build !noasm

package cpu

import (
	"fmt"
	"testing"
)

// TestMatMulOfOneToken runs both kinds of products of AVX-512 with one token, of which a
// processor takes one.
func TestMatMulOfOneToken(t *testing.T) {
	if err := AVX512VNNI.available(); err != nil {
		t.Skip(err)
	}
	for _, ahead := range []bool{false, true} {
		t.Run(fmt.Sprint("ahead=", ahead), func(t *testing.T) {
			o := generic()
			o.accelerate(AVX512VNNI)
			o.matMul, o.matMulF16, o.matMulBF16, o.read = matMulAVX512, matMulF16AVX512, matMulBF16AVX512, readVectors(readAVX512)
			if ahead {
				o.readAhead()
			}
			o.Read(make([]byte, 1<<17+300))
			r := random()
			for _, f := range formats {
				for _, rows := range []int{1, 16, 17, 80} {
					for _, blocks := range []int{1, 2, 9} {
						p := newProblem(t, f, r, rows, blocks*f.columns(), 1)
						if err := sameBits(p.product(o), p.want); err != nil {
							t.Fatalf("%v: %v", p, err)
						}
					}
				}
			}
			for _, f := range halfFormats {
				for _, k := range []int{1, 33, 700} {
					const rows, groups = 80, 5
					src, x := f.source(r, rows, k), normals(r, k)
					w := make([]byte, PackedHalfBytes(rows, k))
					if err := f.pack(w, src, rows, k); err != nil {
						t.Fatal(err)
					}
					got, want := make([]float32, rows), make([]float32, rows)
					f.matMul(o, got, rows, w, groups, x, 1, k)
					f.matMul(generic(), want, rows, w, groups, x, 1, k)
					if err := sameBits(got, want); err != nil {
						t.Fatalf("%s, %d columns: %v", f.name, k, err)
					}
				}
			}
		})
	}
}

// The maker's name is twelve letters, of which a kernel is chosen.
func TestVendor(t *testing.T) {
	var id [12]byte
	vendorID(&id)
	for _, c := range id {
		if c < ' ' || c > '~' {
			t.Fatalf("the processor says its maker is %q", id)
		}
	}
}
