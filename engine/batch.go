package engine

import "github.com/wasmeter/wasmeter/engine/backend"

// fill turns a plan into the integers that the model computes from. A sequence
// whose known tokens are all computed by this step is sampled from its last row.
func fill(b *backend.Batch, plan []work) {
	b.Reset()
	for _, w := range plan {
		q := w.seq
		row := len(b.Tokens)
		for p := q.computed; p < q.computed+w.rows; p++ {
			b.Tokens = append(b.Tokens, q.tokens[p])
			b.Positions = append(b.Positions, int32(p))
			b.Slots = append(b.Slots, q.table.Slot(p))
		}
		b.Seqs = append(b.Seqs, backend.Seq{
			Row:     int32(row),
			Len:     int32(w.rows),
			Context: int32(q.computed + w.rows),
			Blocks:  q.table.Blocks(),
		})
		if w.rows == q.pending() {
			b.Sample = append(b.Sample, int32(row+w.rows-1))
		}
	}
}
