package cpu

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// vector is one call of a matrix kernel and the bits it must give.
type vector struct {
	Function string   // the assembly's name without level and number of tokens
	W        []byte   // packed
	X        []byte   // int8, or f32 where there is no Meta
	Meta     []uint32 // [tokens, blocks, 7]
	Tokens   int
	Groups   int
	Blocks   int // columns of 16-bit floats
	Ldo      int
	Want     []uint32 // [tokens, ldo]
}

// TestWriteVectors writes calls of the VNNI kernels for _gen/emulate/run.sh, which runs them
// where no processor has the instructions.
func TestWriteVectors(t *testing.T) {
	path := os.Getenv("WASMETER_CPU_VECTORS")
	if path == "" {
		t.Skip("run by kernels/cpu/_gen/emulate/run.sh")
	}
	r := random()
	var vectors []vector
	for _, f := range formats {
		for _, k := range []int{1, 3, 18} {
			for _, tokens := range []int{1, 2, 3, 4, 8} {
				k := k * f.form.Columns()
				p := newProblem(t, f, r, 33, k, tokens)
				v := vector{Function: "matMul" + f.form.String(), W: p.w, Tokens: tokens, Groups: p.groups, Blocks: k / 32, Ldo: p.ldo}
				for _, x := range p.x {
					v.X = append(v.X, byte(x))
				}
				for _, m := range p.meta {
					v.Meta = append(v.Meta, math.Float32bits(m.D), math.Float32bits(m.DSum), uint32(m.Bias))
					for _, pair := range m.Pairs {
						v.Meta = append(v.Meta, uint32(uint16(pair[0]))|uint32(uint16(pair[1]))<<16)
					}
					v.Meta = append(v.Meta, uint32(m.Halves[0]), uint32(m.Halves[1]))
				}
				for _, y := range p.want {
					v.Want = append(v.Want, math.Float32bits(y))
				}
				vectors = append(vectors, v)
			}
		}
	}
	for _, f := range halfFormats {
		for _, k := range []int{1, 33, 576} {
			for tokens := 1; tokens <= 4; tokens++ {
				const rows, ldo = 33, 50
				w, x := make([]byte, PackedHalfBytes(rows, k)), normals(r, tokens*k)
				if err := f.pack(w, f.source(r, rows, k), rows, k); err != nil {
					t.Fatal(err)
				}
				want := make([]float32, tokens*ldo)
				f.matMul(generic(), want, ldo, w, Groups(rows), x, tokens, k)
				v := vector{Function: "matMul" + f.name, W: w, Tokens: tokens, Groups: Groups(rows), Blocks: k, Ldo: ldo}
				for _, x := range x {
					v.X = binary.LittleEndian.AppendUint32(v.X, math.Float32bits(x))
				}
				for _, y := range want {
					v.Want = append(v.Want, math.Float32bits(y))
				}
				vectors = append(vectors, v)
			}
		}
	}
	text, err := json.Marshal(vectors)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
