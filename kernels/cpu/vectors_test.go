package cpu

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// vector is one call of a matrix kernel and the bits it must give.
type vector struct {
	Function string // the assembly's name without level and number of tokens
	W        []byte // packed
	X        []byte
	Meta     []uint32 // [tokens, blocks, 5]
	Tokens   int
	Groups   int
	Blocks   int
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
			for tokens := 1; tokens <= tileTokens; tokens++ {
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
				}
				for _, y := range p.want {
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
