package cuda

import (
	"encoding/binary"
	"math/bits"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// integers is how a step's integers lie in its one upload: int32 arrays one after
// the other. All is a function of four numbers, so a captured graph finds it where
// it was.
type integers struct {
	rows   int // of the launches: the batch's, or more to pad a decode step
	tables int // block tables, one for each sequence; of a decode step, for each row
	stride int // entries of a table, a power of two
	draws  int // rows whose tokens are drawn; 0 where logits come back
}

// drawWords is the size of a draw. Behind the block tables of a step that draws lie its
// draws, one for each row of logits, and behind these the pairs that they name parts
// of: tokens with a bias, or with a count. Draws have their place in the layout; pairs
// are as many as a step has.
const drawWords = kernels.DrawBytes / 4

// leastStride keeps the number of graphs small: a table of as many blocks serves
// every shorter one.
const leastStride = 16

// integersOf returns the layout of a batch whose launches have so many rows and tables.
func integersOf(b *backend.Batch, rows, tables, blockSize int) integers {
	longest := 0
	for i := range b.Seqs {
		longest = max(longest, blocksOf(&b.Seqs[i], blockSize))
	}
	return integers{rows: rows, tables: tables, stride: powerOfTwo(max(longest, leastStride))}
}

// blocksOf is the number of blocks that a sequence's context takes.
func blocksOf(s *backend.Seq, blockSize int) int {
	return min((int(s.Context)+blockSize-1)/blockSize, len(s.Blocks))
}

// The arrays' offsets, in words. fresh is kernels.QKV's. sequences holds four words for
// each table: the first row of a run of rows, their number, the context of the last, and the table;
// the kernel reads the four at once, which takes an address that is a multiple of 16,
// as draws have. Behind the words lie the draws' pairs.
func (l integers) tokens() int    { return 0 }
func (l integers) positions() int { return l.rows }
func (l integers) slots() int     { return 2 * l.rows }
func (l integers) contexts() int  { return 3 * l.rows }
func (l integers) fresh() int     { return 4 * l.rows }
func (l integers) sampledAt() int { return 5 * l.rows }
func (l integers) sequences() int { return (6*l.rows + 3) &^ 3 }
func (l integers) table() int     { return l.sequences() + 4*l.tables }
func (l integers) drawsAt() int   { return (l.table() + l.tables*l.stride + 3) &^ 3 }
func (l integers) words() int {
	if l.draws == 0 {
		return l.table() + l.tables*l.stride
	}
	return l.drawsAt() + drawWords*l.draws
}

// words is a little-endian array of int32, as the device has it.
type words []byte

func (w words) set(i int, v int32) { binary.LittleEndian.PutUint32(w[4*i:], uint32(v)) }

func (w words) setAll(i int, list []int32) {
	for j, v := range list {
		w.set(i+j, v)
	}
}

// fill writes a batch. Rows that pad it have token 0 at position 0, are stored
// nowhere and see nothing; samples that pad it are of no row.
func (l integers) fill(w words, b *backend.Batch, blockSize int) {
	w.setAll(l.tokens(), b.Tokens)
	w.setAll(l.positions(), b.Positions)
	w.setAll(l.slots(), b.Slots)
	w.setAll(l.sampledAt(), b.Sample)
	for row := range b.Rows() {
		w.set(l.contexts()+row, b.Positions[row]+1)
	}
	for row := b.Rows(); row < l.rows; row++ {
		w.set(l.tokens()+row, 0)
		w.set(l.positions()+row, 0)
		w.set(l.slots()+row, -1)
		w.set(l.contexts()+row, 0)
	}
	for i := len(b.Sample); i < l.rows; i++ {
		w.set(l.sampledAt()+i, -1)
	}
	for i := range b.Seqs {
		s := &b.Seqs[i]
		w.setAll(l.sequences()+4*i, []int32{s.Row, s.Len, s.Context, int32(i)})
		for j := range s.Len {
			w.set(l.fresh()+int(s.Row+j), j+1)
		}
		first, n := int32(i), int32(1)
		if l.tables == l.rows {
			first, n = s.Row, s.Len
		}
		for j := range n {
			w.setAll(l.table()+int(first+j)*l.stride, s.Blocks[:blocksOf(s, blockSize)])
		}
	}
}

// singles is the number of sequences at the beginning of the batch that have one row
// each: those rows' attention is a decoding one, the others' that of a prompt.
func singles(b *backend.Batch) int {
	for i := range b.Seqs {
		if b.Seqs[i].Len != 1 {
			return i
		}
	}
	return len(b.Seqs)
}

// mostChecked is the largest number of rows of a sequence in a decode step: its last
// token and the guesses that are checked. The attention of each reads the whole
// context, that of a prompt's rows once for many of them.
const mostChecked = 16

// decodes tells whether a batch is a decode step: few rows of each sequence, all of
// which give logits in order.
func decodes(b *backend.Batch) bool {
	if len(b.Sample) != b.Rows() {
		return false
	}
	for i, row := range b.Sample {
		if int(row) != i {
			return false
		}
	}
	for i := range b.Seqs {
		if b.Seqs[i].Len > mostChecked {
			return false
		}
	}
	return true
}

// powerOfTwo is the least power of two that is not below n, which is positive.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }
