package cpu

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// vector is one call of a matrix kernel and the bits it must give.
type vector struct {
	Function string // the assembly's name without the number of tokens
	W        []byte // packed
	X        []byte
	Meta     []uint32 // [tokens, blocks, 3]
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
	for i, f := range formats {
		function := []string{"matMulQ4VNNI", "matMulQ4VNNI", "matMulQ8VNNI"}[i]
		for _, k := range []int{32, 96, 576} {
			for tokens := 1; tokens <= tileTokens; tokens++ {
				p := newProblem(t, f, r, 33, k, tokens)
				v := vector{Function: function, W: p.w, Tokens: tokens, Groups: p.groups, Blocks: k / 32, Ldo: p.ldo}
				for _, x := range p.x {
					v.X = append(v.X, byte(x))
				}
				for _, m := range p.meta {
					v.Meta = append(v.Meta, math.Float32bits(m.D), math.Float32bits(m.DSum), uint32(m.Bias))
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
