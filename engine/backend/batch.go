package backend

import "github.com/wasmeter/wasmeter/engine/sample"

// Batch is one step's work: the rows to compute and where their keys and
// values live. It holds integers only; who asked, and why, stays with the
// scheduler. A Batch is filled by the engine's loop and read by the model and
// the backend until the step's Sync returns; its slices are reused between
// steps.
type Batch struct {
	// Tokens holds the token id of each row; −1−i is the token drawn from the i-th row
	// in Sample of the step that a Drawer queued before, known or not. [rows]
	Tokens []int32
	// Positions holds each row's position in its sequence, from 0. [rows]
	Positions []int32
	// Slots holds where each row's key and value are stored: block*BlockSize +
	// offset within the block. [rows]
	Slots []int32
	// Seqs describes the sequences in row order; their rows are contiguous.
	Seqs []Seq
	// Sample lists the rows whose logits are wanted, ascending.
	Sample []int32
	// Draws says for each row in Sample how its token is drawn, where a Drawer does
	// so; otherwise it is empty.
	Draws []sample.Draw
}

// Seq is one sequence's share of a Batch.
type Seq struct {
	// Row is the index of the sequence's first row, Len the number of its rows,
	// which have consecutive positions.
	Row, Len int32
	// Context is the number of positions in the KV cache once this step's rows
	// are stored; the row at position p attends to positions 0 … p.
	Context int32
	// Blocks is the sequence's block table: block i holds positions
	// i*BlockSize … (i+1)*BlockSize-1.
	Blocks []int32
}

// Rows is the number of rows of the batch.
func (b *Batch) Rows() int { return len(b.Tokens) }

// Reset empties the batch and keeps its storage.
func (b *Batch) Reset() {
	b.Tokens = b.Tokens[:0]
	b.Positions = b.Positions[:0]
	b.Slots = b.Slots[:0]
	b.Seqs = b.Seqs[:0]
	b.Sample = b.Sample[:0]
	b.Draws = b.Draws[:0]
}
