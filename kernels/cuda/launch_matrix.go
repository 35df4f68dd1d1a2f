//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// matrixKernels are the functions of embed.cu, matmul_vector.cu, matmul_skinny.cu,
// matmul_tile.cu and sample.cu.
type matrixKernels struct {
	embed                   *driver.Function
	vector                  [3]*driver.Function // for 1, 2 and 4 rows of x
	skinny                  [2]*driver.Function // for 8 and 16
	tile                    *driver.Function    // for 64
	prepare, weigh, collect *driver.Function    // of sampling
}

// Matrix is a weight on the device.
type Matrix struct {
	Layout
	Data driver.Ptr // Layout.Bytes bytes, aligned to 256
}

// MaxMatrices is the number of matrices that a Product may have.
const MaxMatrices = 3

// Product describes matrices that share their input, and where their results go. It is
// made once, when a model is loaded: the kernels read Table.
type Product struct {
	// Table is device memory of TableBytes, aligned to 16, that holds what Encode writes.
	Table driver.Ptr
	// Matrices have the same number of columns. Of a gated product they are the gate
	// and up, with the same number of rows.
	Matrices []Matrix
	// Bias holds float32 [rows] for each matrix; nil, or 0 for none. Not of a gated
	// product.
	Bias []driver.Ptr
	// Y are the results, float32 [rows of x, rows of the matrix]. A gated product has
	// one.
	Y []driver.Ptr
}

// TableBytes is the size of a Product's table.
const TableBytes = MaxMatrices * matBytes

// matBytes is sizeof(Mat) in formats.cuh.
const matBytes = 48

// Encode writes the table, which the caller copies to p.Table. dst has TableBytes.
func (p *Product) Encode(dst []byte) {
	clear(dst[:TableBytes])
	for i, m := range p.Matrices {
		at := dst[i*matBytes:]
		for plane := range NumPlanes {
			binary.LittleEndian.PutUint64(at[8*plane:], uint64(m.Data)+uint64(m.Offset(plane)))
		}
		if i < len(p.Bias) {
			binary.LittleEndian.PutUint64(at[24:], uint64(p.Bias[i]))
		}
		// The matrices of a gated product have one result.
		if n := len(p.Y); n > 0 {
			binary.LittleEndian.PutUint64(at[32:], uint64(p.Y[min(i, n-1)]))
		}
		binary.LittleEndian.PutUint32(at[40:], uint32(m.Rows))
		binary.LittleEndian.PutUint32(at[44:], uint32(m.Format))
	}
}

// Input is what a product multiplies: rows of x, normed on the way where Norm is set.
type Input struct {
	X    driver.Ptr // float32 [Rows or more, columns of the matrices], aligned to 16
	Rows int
	// Norm makes it the product with the RMS norm of x times Norm, float32 [cols]; 0:
	// with x as it is. Up to MaxNormRows rows.
	Norm driver.Ptr
	Eps  float32
	// Squares says that X is scaled by a norm's weights already and lacks the division by
	// its rows' roots: NextNorm.Squares of the product that made it, of Parts parts. 0: X
	// is taken as it is. Only of products that are Tiled.
	Squares driver.Ptr
	Parts   int
	// Scratch is memory of MatMulScratch's size, of zeros before its first use. Launches
	// that share it must not overlap; all products may share it.
	Scratch driver.Ptr
}

// MaxNormRows is the largest number of rows for which a product norms its input.
const MaxNormRows = 16

// Gate is the function of a gated product.
type Gate int32

const (
	SiLU Gate = iota // x·sigmoid(x)
	GELU             // the tanh approximation of x·Φ(x)
)

// MatMul sets each Y to x·Wᵀ (+ Bias). Y may not be X.
//
// Up to 4 rows, and for products with a matrix of F32, weights become float32 and so are
// products and sums: as exact as float32 arithmetic. For more rows weights and x are
// rounded to bfloat16 (2⁻⁹ of each value) for the tensor cores, whose sums are float32;
// weights of F16 too, since x in float16 would end at 65504, where a residual stream need
// not.
func (k *Kernels) MatMul(s *driver.Stream, p *Product, in Input) error {
	return k.product(s, p, in, productEnd{mode: modeSet})
}

// AddMatMul adds x·Wᵀ (+ Bias) to each Y.
func (k *Kernels) AddMatMul(s *driver.Stream, p *Product, in Input) error {
	return k.product(s, p, in, productEnd{mode: modeAdd})
}

// NextNorm is a norm of a product's result that is done but for the division by the
// rows' roots, which no block knows: the next product has Input.Squares.
type NextNorm struct {
	Weights driver.Ptr // float32 [rows of the matrix]
	Scaled  driver.Ptr // float32 [rows of x, rows of the matrix]: becomes Y ⊙ Weights
	// Squares becomes sums of Y's squares, float32 [rows of x, NormParts(rows of the
	// matrix)].
	Squares driver.Ptr
}

// NormParts is the number of parts of the sum of squares of a row of so many values.
func NormParts(cols int) int { return over(cols, tileRows) }

// Tiled tells whether a product of so many rows is of the kernel that knows NextNorm and
// Input.Squares.
func (p *Product) Tiled(rows int) bool { return rows > MaxNormRows && !p.has(F32) }

// AddMatMulNorm is AddMatMul of a product that is Tiled and has one matrix, and next.
func (k *Kernels) AddMatMulNorm(s *driver.Stream, p *Product, in Input, next NextNorm) error {
	if len(p.Matrices) != 1 || next.Weights == 0 || next.Scaled == 0 || next.Squares == 0 {
		return fmt.Errorf("product of %d matrices with a norm behind it: it has one matrix, and the norm's weights and results", len(p.Matrices))
	}
	return k.product(s, p, in, productEnd{mode: modeAdd, next: next})
}

// GatedMatMul sets Y[0] to gate(x·Matrices[0]ᵀ) ⊙ (x·Matrices[1]ᵀ). It is one launch, or
// two for more than 4 rows where the matrices differ in format.
func (k *Kernels) GatedMatMul(s *driver.Stream, p *Product, in Input, g Gate) error {
	return k.gated(s, p, in, g)
}

// LogitsEnd is what becomes of logits.
type LogitsEnd struct {
	// Rows lists the rows of x that are wanted, int32 [Input.Rows]; -1 is none, whose
	// result is left as it is. 0: all, in order.
	Rows driver.Ptr
	// Softcap above 0 makes a logit x Softcap·tanh(x/Softcap).
	Softcap float32
	// NotFinite is an int32 that becomes 1 where a logit is NaN or infinite, and is
	// otherwise left as it is. 0: nobody asks.
	NotFinite driver.Ptr
}

// Logits is MatMul for chosen rows: Y[0]'s row i is row end.Rows[i] of x times Wᵀ, for
// in.Rows of them.
func (k *Kernels) Logits(s *driver.Stream, p *Product, in Input, end LogitsEnd) error {
	return k.product(s, p, in, productEnd{mode: modeSet, LogitsEnd: end})
}

// MatMulScratch is the size of Input.Scratch in bytes.
func (k *Kernels) MatMulScratch() int64 { return k.matMulScratch() }

// Embed sets row r of y to row tokens[r] of the table times scale. y is float32 [rows,
// table.Cols]; tokens is int32 [rows]. Of a token below 0 the table's row is drawn[-1 -
// token], unless drawn is 0: that is how a step names tokens that the one before has
// yet to draw. A token that the table does not have makes a row of NaN, which ends as
// a step that is not finite.
func (k *Kernels) Embed(s *driver.Stream, y driver.Ptr, table Matrix, tokens, drawn driver.Ptr, rows int, scale float32) error {
	return k.embedRows(s, y, table, tokens, drawn, rows, scale)
}

// Sampling is a step's drawing of tokens. What the draw of a row does is said by its
// Draw in device memory, so a captured launch serves any parameters.
type Sampling struct {
	Logits driver.Ptr // float32 [Rows, Vocab]; not changed
	Rows   int
	Vocab  int // up to MaxVocab
	// Draws is device memory of Rows · DrawBytes, aligned to 16: what Draw.Encode writes.
	Draws driver.Ptr
	// Bias and Seen are the sparse lists that draws name parts of: pairs of an int32
	// token, and its bias as a float32, or its number of occurrences in the output as
	// an int32 (0 for tokens of the prompt alone). Tokens of a draw's part are distinct.
	Bias, Seen driver.Ptr
	// Masks are bits of tokens that may be drawn, uint32 [masks, (Vocab+31)/32].
	Masks driver.Ptr
	// Scratch is memory of SampleScratch's size; it need not be cleared.
	Scratch driver.Ptr
	// Drawn is Rows · DrawnBytes(Top), read by Drawn.Decode.
	Drawn driver.Ptr
	// Top is the most log probabilities that any draw asks for, up to MaxTop.
	Top int
}

// Sample draws a token for each row by engine/sample's rule: bias and mask, penalties,
// the greatest logit at temperature 0, otherwise temperature, top-k, min-p, top-p and one
// number against the sums of the weights in token order. Weights are its 40-bit integers,
// computed by the same steps in float64, so that the token is the same.
func (k *Kernels) Sample(s *driver.Stream, p Sampling) error { return k.sample(s, p) }

// SampleScratch is the size of Sampling.Scratch in bytes.
func SampleScratch(rows, vocab int) int64 {
	slices := int64(sampleSlices(vocab))
	return int64(rows) * (int64(vocab+7)/8*8*12 + slices*sliceBytes)
}

func (m *matrixKernels) load(l *loader) {
	m.embed = l.function("embed", 0)
	for i := range m.vector {
		m.vector[i] = l.function(fmt.Sprintf("matmul_vector_%d", 1<<i), 0)
	}
	for i := range m.skinny {
		m.skinny[i] = l.function(fmt.Sprintf("matmul_skinny_%d", 8<<i), maxShared)
	}
	m.tile = l.function("matmul_tile", maxShared)
	m.prepare = l.function("sample_prepare", 0)
	m.weigh = l.function("sample_weigh", 0)
	m.collect = l.function("sample_draw", 0)
}
