// Package cpu holds the numeric kernels of the CPU backend: matrix products of
// quantised weights, attention over keys and values of 16 or 8 bits, and the
// row operations between them. It knows slices and integers only; models,
// sequences and threads belong to its callers.
//
// # Levels
//
// A Level is a set of instructions. [Select] returns the kernels of one level as
// an [Ops]; the caller keeps it, so features are detected once and two levels
// can run side by side in a test. Assembly is written by _gen and committed;
// every kernel has a twin in plain Go, which is the fallback on other machines
// (and with build tag noasm) and the reference in tests.
//
// # Results do not depend on the company
//
// Every f32 result is defined by a fixed order of fused multiply-adds, which the
// twins reproduce exactly (see fma32). So a result has the same bits on every
// level, in every tile of rows and tokens, for every number of heads or cached
// positions processed together. A request computes the same bits alone and
// batched, on this machine and on the next. Only the payload of a NaN is
// unspecified.
//
// # Weights
//
// Quantised matrices are repacked at load into groups of 16 rows, padded with
// zero rows. A group is a run of blocks, each of 32 columns: codes, scales of the 16
// rows, and minimums where the form has them. A weight is d·q + m, or d·(q - zero).
//
//	FormQ4_1  4 bits    320 bytes  256 codes, 16 × f16 d, 16 × f16 m
//	FormQ5_0  5 bits    352 bytes  320 codes, 16 × f16 d; zero is 16
//	FormQ5_1  5 bits    384 bytes  320 codes, 16 × f16 d, 16 × f16 m
//	FormQ8_0  8 bits    544 bytes  512 codes, 16 × f16 d; signed
//	FormQ4_K  4 bits    288 bytes  256 codes, 16 × uint8 d, 16 × uint8 m
//	FormQ5_K  5 bits    352 bytes  320 codes, 16 × uint8 d, 16 × uint8 m
//	FormQ6_K  6 bits    416 bytes  384 codes, 16 × int8 d of the first 16 columns, of the last; zero is 32
//
// The last three have a header for each eight blocks: 16 × f16, by which the bytes d
// are multiplied, and 16 × f16 for the bytes m. These products are exact in f32, so
// every form holds the weights of its GGUF type as they are, in as many bits (Q4_0
// grows from 4.5 to 5 a weight, Q4_K and Q5_K by 0.125).
//
// A line of 64 bytes holds four bytes for each of the 16 rows in turn, which are
// four columns of the row: one 512-bit multiply-add against a broadcast of four
// activations advances 16 rows, without shuffles or horizontal sums. Of 8 bits,
// line j holds columns 4j … 4j+3. Of fewer bits, byte i of line j holds the low
// four bits of column 8j+i in its low and of column 8j+4+i in its high half, for
// four lines; then come the upper bits, one line for the fifth bits of all eight
// fours of columns, or two for the fifth and sixth of four each, the first lowest.
//
// Keys of 8 bits lie in groups of FormQ8_0 too, 16 positions of a head each: their scores
// are products.
//
// Matrices of 16-bit floats go into groups of the same rows: a column is 16 × f16 or
// bf16. Their products take activations in f32.
//
// # Activations
//
// Activations are row-major int8, [tokens, k], with one [Meta] for each 32 columns,
// [tokens, k/32].
//
// # Time
//
// Assembly cannot be preempted, and a goroutine that cannot be preempted delays
// every stop of the garbage collector. The methods of Ops cut their work so that
// one uninterruptible stretch stays far below 100 µs; a call as a whole takes as
// long as its size asks.
package cpu
