package backendtest

import "github.com/wasmeter/wasmeter/engine/backend"

// Append adds a sequence's next tokens to a batch: those from position start
// on, of a sequence with the given block table.
func Append(batch *backend.Batch, tokens []int32, start int, blocks []int32, blockSize int) {
	batch.Seqs = append(batch.Seqs, backend.Seq{
		Row:     int32(batch.Rows()),
		Len:     int32(len(tokens)),
		Context: int32(start + len(tokens)),
		Blocks:  blocks,
	})
	for i, token := range tokens {
		position := start + i
		slot := int(blocks[position/blockSize])*blockSize + position%blockSize
		batch.Tokens = append(batch.Tokens, token)
		batch.Positions = append(batch.Positions, int32(position))
		batch.Slots = append(batch.Slots, int32(slot))
	}
}

// Blocks returns the table of the next free blocks that hold n positions, and
// moves next behind them.
func Blocks(next *int32, n, blockSize int) []int32 {
	var table []int32
	for range (n + blockSize - 1) / blockSize {
		table = append(table, *next)
		*next++
	}
	return table
}
