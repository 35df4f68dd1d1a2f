package sim

import (
	"fmt"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// check finds the faults of a batch that a real device would answer with wrong
// text or a crash.
func (m *Model) check(b *backend.Batch) error {
	rows := b.Rows()
	switch {
	case m.blocks == 0:
		return fmt.Errorf("no cache is reserved")
	case rows > m.options.MaxRows:
		return fmt.Errorf("a batch of %d rows; the largest is %d", rows, m.options.MaxRows)
	case len(b.Positions) != rows || len(b.Slots) != rows:
		return fmt.Errorf("%d tokens have %d positions and %d slots", rows, len(b.Positions), len(b.Slots))
	}
	var next int32 // the first row of the next sequence
	for i := range b.Seqs {
		s := &b.Seqs[i]
		if s.Row != next || s.Len < 1 || int(s.Len) > rows-int(next) {
			return fmt.Errorf("sequence %d has %d rows from %d on; its first is %d of %d", i, s.Len, s.Row, next, rows)
		}
		if err := m.checkSequence(b, s); err != nil {
			return fmt.Errorf("sequence %d: %w", i, err)
		}
		next += s.Len
	}
	if int(next) != rows {
		return fmt.Errorf("%d of %d rows belong to no sequence", rows-int(next), rows)
	}
	last := int32(-1)
	for _, row := range b.Sample {
		if row <= last || int(row) >= rows {
			return fmt.Errorf("row %d is sampled after row %d of %d; the list ascends", row, last, rows)
		}
		last = row
	}
	return nil
}

// checkSequence sees that each row is where the sequence and its block table
// say.
func (m *Model) checkSequence(b *backend.Batch, s *backend.Seq) error {
	if int(s.Context) > m.options.Context || s.Context < s.Len {
		return fmt.Errorf("%d positions with %d rows; the context is %d", s.Context, s.Len, m.options.Context)
	}
	for r := s.Row; r < s.Row+s.Len; r++ {
		token, position := b.Tokens[r], b.Positions[r]
		if token < 0 || int(token) >= m.options.Vocab {
			return fmt.Errorf("token %d is not in the vocabulary of %d", token, m.options.Vocab)
		}
		if want := s.Context - s.Len + r - s.Row; position != want {
			return fmt.Errorf("row %d is at position %d, not %d", r, position, want)
		}
		i := int(position) / m.blockSize
		if i >= len(s.Blocks) {
			return fmt.Errorf("position %d is behind the table of %d blocks of %d", position, len(s.Blocks), m.blockSize)
		}
		block := s.Blocks[i]
		if block < 0 || int(block) >= m.blocks {
			return fmt.Errorf("block %d of %d", block, m.blocks)
		}
		if want := int(block)*m.blockSize + int(position)%m.blockSize; int(b.Slots[r]) != want {
			return fmt.Errorf("position %d is stored in slot %d, not %d", position, b.Slots[r], want)
		}
	}
	return nil
}
