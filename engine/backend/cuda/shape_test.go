package cuda

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/backendtest"
)

// uploaded is what the device gets of a batch, and the shape of its launches.
func uploaded(b *backend.Batch, blockSize int) ([]int32, shape) {
	s := shapeOf(b, blockSize, 64)
	raw := make(words, 4*s.words())
	for i := range raw {
		raw[i] = 0x55 // of a step before
	}
	s.fill(raw, b, blockSize)
	var out []int32
	for at := 0; at < len(raw); at += 4 {
		out = append(out, int32(binary.LittleEndian.Uint32(raw[at:])))
	}
	return out, s
}

// TestIntegersOfDecode: three sequences of one token each become four rows.
func TestIntegersOfDecode(t *testing.T) {
	b := &backend.Batch{Sample: []int32{0, 1, 2}}
	backendtest.Append(b, []int32{7}, 0, []int32{4}, 16)
	backendtest.Append(b, []int32{8}, 16, []int32{3, 9}, 16)
	backendtest.Append(b, []int32{9}, 2, []int32{5, 6}, 16) // a block ahead of the need
	got, s := uploaded(b, 16)
	if want := (shape{integers: integers{rows: 4, tables: 4, stride: 16}, sampled: 4, singles: 4, captured: true}); s != want {
		t.Fatalf("shape %+v, want %+v", s, want)
	}
	for _, c := range []struct {
		name string
		at   int
		want []int32
	}{
		{"tokens", s.tokens(), []int32{7, 8, 9, 0}},
		{"positions", s.positions(), []int32{0, 16, 2, 0}},
		{"slots", s.slots(), []int32{4 * 16, 9 * 16, 5*16 + 2, -1}},
		{"contexts", s.contexts(), []int32{1, 17, 3, 0}},
		{"sampled", s.sampledAt(), []int32{0, 1, 2, -1}},
		{"table 0", s.table(), []int32{4}},
		{"table 1", s.table() + 16, []int32{3, 9}},
		{"table 2", s.table() + 32, []int32{5}},
	} {
		if part := got[c.at:][:len(c.want)]; !slices.Equal(part, c.want) {
			t.Errorf("%s: %d, want %d", c.name, part, c.want)
		}
	}
	if last := s.table() + 64; len(got) != last {
		t.Errorf("%d words, want %d", len(got), last)
	}
}

// TestIntegersOfMixedStep: two sequences decode, one computes its prompt, and one that
// comes after it has one row too.
func TestIntegersOfMixedStep(t *testing.T) {
	b := &backend.Batch{Sample: []int32{0, 1, 5}}
	backendtest.Append(b, []int32{1}, 3, []int32{0}, 8)
	backendtest.Append(b, []int32{2}, 130, backendtest.Blocks(new(int32), 136, 8), 8)
	backendtest.Append(b, []int32{3, 4, 5}, 7, []int32{40, 41}, 8)
	backendtest.Append(b, []int32{6}, 0, []int32{42}, 8)
	got, s := uploaded(b, 8)
	want := shape{integers: integers{rows: 6, tables: 4, stride: 32}, sampled: 3, singles: 2, runs: 2, runRows: 4}
	if s != want {
		t.Fatalf("shape %+v, want %+v", s, want)
	}
	if s.sequences()%4 != 0 {
		t.Errorf("runs begin at word %d, want a multiple of 4", s.sequences())
	}
	for _, c := range []struct {
		name string
		at   int
		want []int32
	}{
		{"tokens", s.tokens(), []int32{1, 2, 3, 4, 5, 6}},
		{"contexts", s.contexts(), []int32{4, 131, 8, 9, 10, 1}},
		{"sampled", s.sampledAt(), []int32{0, 1, 5, -1, -1, -1}},
		{"runs: row, rows, context, table", s.sequences() + 4*s.singles, []int32{2, 3, 10, 2, 5, 1, 1, 3}},
		{"table 2", s.table() + 2*32, []int32{40, 41}},
		{"table 1 to its end", s.table() + 32, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
	} {
		if part := got[c.at:][:len(c.want)]; !slices.Equal(part, c.want) {
			t.Errorf("%s: %d, want %d", c.name, part, c.want)
		}
	}
}

// TestIntegersOfChecks: a sequence that has its guesses checked has as many rows, each
// with its table.
func TestIntegersOfChecks(t *testing.T) {
	b := &backend.Batch{Sample: []int32{0, 1, 2, 3, 4}}
	backendtest.Append(b, []int32{7}, 0, []int32{4}, 16)
	backendtest.Append(b, []int32{8, 1, 2}, 14, []int32{3, 9}, 16)
	backendtest.Append(b, []int32{9}, 2, []int32{5}, 16)
	got, s := uploaded(b, 16)
	if want := (shape{integers: integers{rows: 8, tables: 8, stride: 16}, sampled: 8, singles: 8, captured: true}); s != want {
		t.Fatalf("shape %+v, want %+v", s, want)
	}
	for _, c := range []struct {
		name string
		at   int
		want []int32
	}{
		{"tokens", s.tokens(), []int32{7, 8, 1, 2, 9, 0, 0, 0}},
		{"positions", s.positions(), []int32{0, 14, 15, 16, 2, 0, 0, 0}},
		{"slots", s.slots(), []int32{4 * 16, 3*16 + 14, 3*16 + 15, 9 * 16, 5*16 + 2, -1, -1, -1}},
		{"contexts", s.contexts(), []int32{1, 15, 16, 17, 3, 0, 0, 0}},
		{"fresh", s.fresh(), []int32{1, 1, 2, 3, 1}},
		{"sampled", s.sampledAt(), []int32{0, 1, 2, 3, 4, -1, -1, -1}},
		{"table of row 0", s.table(), []int32{4}},
		{"table of row 1", s.table() + 16, []int32{3, 9}},
		{"table of row 2", s.table() + 32, []int32{3, 9}},
		{"table of row 3", s.table() + 48, []int32{3, 9}},
		{"table of row 4", s.table() + 64, []int32{5}},
	} {
		if part := got[c.at:][:len(c.want)]; !slices.Equal(part, c.want) {
			t.Errorf("%s: %d, want %d", c.name, part, c.want)
		}
	}
}

// TestStepsThatAreCaptured: which batches are decode steps.
func TestStepsThatAreCaptured(t *testing.T) {
	single := func(n int) *backend.Batch {
		b, next := &backend.Batch{}, int32(0)
		for i := range n {
			backendtest.Append(b, []int32{1}, i, backendtest.Blocks(&next, 80, 16), 16)
			b.Sample = append(b.Sample, int32(i))
		}
		return b
	}
	one, more, many := single(1), single(33), single(65)
	run := func(n int) *backend.Batch {
		b := single(1)
		backendtest.Append(b, make([]int32, n), 3, []int32{5, 6}, 16)
		for i := range n {
			b.Sample = append(b.Sample, int32(1+i))
		}
		return b
	}
	silent, short, long, prompt := single(2), run(3), run(mostChecked+1), run(3)
	silent.Sample = silent.Sample[:1]
	prompt.Sample = []int32{0, 3}
	for _, c := range []struct {
		name  string
		batch *backend.Batch
		rows  int
		want  bool
	}{
		{"one row", one, 1, true},
		{"33 rows", more, 64, true},
		{"more rows than logits are computed of at once", many, 65, false},
		{"a row without logits", silent, 2, false},
		{"rows of a sequence, all with logits", short, 4, true},
		{"more than are checked", long, mostChecked + 2, false},
		{"rows of a prompt, the last with logits", prompt, 4, false},
	} {
		if s := shapeOf(c.batch, 16, 64); s.rows != c.rows || s.captured != c.want {
			t.Errorf("%s: shape %+v, want %d rows, captured: %t", c.name, s, c.rows, c.want)
		}
	}
}

// TestDecodeShapesAreFew: a sequence that grows to 4096 tokens meets five shapes.
func TestDecodeShapesAreFew(t *testing.T) {
	shapes := make(map[shape]bool)
	table := backendtest.Blocks(new(int32), 4096, 16)
	for at := range 4096 {
		b := &backend.Batch{Sample: []int32{0}}
		backendtest.Append(b, []int32{1}, at, table, 16)
		shapes[shapeOf(b, 16, 64)] = true
	}
	if len(shapes) != 5 {
		t.Errorf("%d shapes, want 5: tables of 16, 32, 64, 128 and 256 blocks", len(shapes))
	}
}
