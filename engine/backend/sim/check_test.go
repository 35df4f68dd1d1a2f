package sim

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// TestFaultyBatches breaks a good batch of two sequences in one place each.
func TestFaultyBatches(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(*backend.Batch)
		want string
	}{
		{"nothing", func(*backend.Batch) {}, ""},
		{"positions missing", func(b *backend.Batch) { b.Positions = b.Positions[:1] }, "6 tokens have 1 positions and 6 slots"},
		{"slots missing", func(b *backend.Batch) { b.Slots = nil }, "6 tokens have 6 positions and 0 slots"},
		{"negative token", func(b *backend.Batch) { b.Tokens[0] = -1 }, "sequence 0: token -1 is not in the vocabulary of 259"},
		{"token behind the vocabulary", func(b *backend.Batch) { b.Tokens[5] = testVocab }, "sequence 1: token 259"},
		{"position", func(b *backend.Batch) { b.Positions[1] = 0 }, "sequence 0: row 1 is at position 0, not 1"},
		{"slot", func(b *backend.Batch) { b.Slots[2] = 3 }, "sequence 0: position 2 is stored in slot 3, not 2"},
		{"slot of another sequence", func(b *backend.Batch) { b.Slots[5] = b.Slots[4] }, "sequence 1: position 17"},
		{"no table", func(b *backend.Batch) { b.Seqs[1].Blocks = nil }, "is behind the table of 0 blocks of 16"},
		{"short table", func(b *backend.Batch) { b.Seqs[1].Blocks = b.Seqs[1].Blocks[:1] }, "position 16 is behind the table of 1 blocks of 16"},
		{"no such block", func(b *backend.Batch) { b.Seqs[0].Blocks[0] = 8 }, "sequence 0: block 8 of 8"},
		{"negative block", func(b *backend.Batch) { b.Seqs[0].Blocks[0] = -1 }, "sequence 0: block -1 of 8"},
		{"context beyond the model's", func(b *backend.Batch) { b.Seqs[1].Context = 65 }, "sequence 1: 65 positions with 3 rows; the context is 64"},
		{"context below the rows", func(b *backend.Batch) { b.Seqs[0].Context = 2 }, "sequence 0: 2 positions with 3 rows"},
		{"no rows", func(b *backend.Batch) { b.Seqs[0].Len = 0 }, "sequence 0 has 0 rows from 0 on; its first is 0 of 6"},
		{"too many rows", func(b *backend.Batch) { b.Seqs[1].Len = 4 }, "sequence 1 has 4 rows from 3 on"},
		{"rows of no sequence", func(b *backend.Batch) { b.Seqs = b.Seqs[:1] }, "3 of 6 rows belong to no sequence"},
		{"a gap", func(b *backend.Batch) { b.Seqs[1].Row = 4 }, "sequence 1 has 3 rows from 4 on; its first is 3 of 6"},
		{"sampled behind the rows", func(b *backend.Batch) { b.Sample[1] = 6 }, "row 6 is sampled after row 2 of 6"},
		{"sampled twice", func(b *backend.Batch) { b.Sample[1] = 2 }, "row 2 is sampled after row 2 of 6"},
		{"sampled before the rows", func(b *backend.Batch) { b.Sample[0] = -1 }, "row -1 is sampled"},
		{"too many for a batch", func(b *backend.Batch) { add(b, tokens("abcdef"), 6, 5) }, "a batch of 12 rows; the largest is 11"},
	} {
		m, slept := newModel(t, Options{Context: 64, MaxRows: 11}, 8)
		var b backend.Batch
		add(&b, tokens("abc"), 3, 0)
		add(&b, tokens("abcdefghijklmnopqr"), 3, 2) // positions 15, 16 and 17
		c.harm(&b)
		_, err := m.Forward(&b)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if len(*slept) != 0 {
			t.Errorf("%s: a refused step takes %v, want no time", c.name, *slept)
		}
	}
}
