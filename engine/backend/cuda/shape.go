package cuda

import "github.com/wasmeter/wasmeter/engine/backend"

// shape is what the launches of a step depend on, beside its list: steps of the same
// shape and list are the same launches.
type shape struct {
	integers
	sampled int // rows of logits
	// The attention of the first singles rows is a decoding one, of a table each;
	// runs of rows, runRows in all, follow.
	singles, runs, runRows int
	// captured says that this is a decode step, whose launches are kept as a graph.
	captured bool
	// top is the largest number of log probabilities beside a drawn token's, 0 or a
	// power of two.
	//lint:ignore U1000 only what is built with the tag cuda draws
	top int
}

// shapeOf is the shape of a batch. A decode step is padded to a power of two of rows,
// if that many rows of logits are computed at once. Its rows have a table each, that
// of their sequence, so that the shape does not depend on how many rows each has.
func shapeOf(b *backend.Batch, blockSize, logitsRows int) shape {
	if rows := powerOfTwo(b.Rows()); decodes(b) && rows <= logitsRows {
		return shape{integers: integersOf(b, rows, rows, blockSize), sampled: rows, singles: rows, captured: true}
	}
	n := singles(b)
	return shape{integers: integersOf(b, b.Rows(), len(b.Seqs), blockSize), sampled: len(b.Sample), singles: n, runs: len(b.Seqs) - n, runRows: b.Rows() - n}
}
