package engine

import "github.com/wasmeter/wasmeter/engine/backend"

// token is the token at a position, or how a batch names one that is being drawn.
func (q *sequence) token(p int) int32 {
	if p < len(q.tokens) {
		return q.tokens[p]
	}
	return int32(-1 - q.drawnAt)
}

// fill turns a plan into the integers that the model computes from. Logits are
// wanted of a sequence's last row if all its known tokens are computed then, to
// sample from it, of the rows of drafts behind it, and of the rows that score its
// prompt.
func fill(b *backend.Batch, plan []work) {
	b.Reset()
	for _, w := range plan {
		q := w.seq
		row, scored := len(b.Tokens), len(q.scored)
		for p := q.computed; p < q.computed+w.rows; p++ {
			b.Tokens = append(b.Tokens, q.token(p))
			b.Positions = append(b.Positions, int32(p))
			b.Slots = append(b.Slots, q.table.Slot(p))
			if scored > 0 && p+1 >= scored && p+1 < q.prompt {
				b.Sample = append(b.Sample, int32(len(b.Tokens)-1))
			}
		}
		if w.last {
			b.Sample = append(b.Sample, int32(row+w.rows-1))
		}
		for i := range w.drafts {
			p := len(q.tokens) + i
			b.Tokens = append(b.Tokens, q.guesses.drafts[i])
			b.Positions = append(b.Positions, int32(p))
			b.Slots = append(b.Slots, q.table.Slot(p))
			b.Sample = append(b.Sample, int32(len(b.Tokens)-1))
		}
		b.Seqs = append(b.Seqs, backend.Seq{
			Row:     int32(row),
			Len:     int32(w.all()),
			Context: int32(q.computed + w.all()),
			Blocks:  q.table.Blocks(),
		})
	}
}
