// Package cpu holds the numeric kernels of the CPU backend: matrix products of
// quantised weights, attention over half precision keys and values, and the
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
// zero rows. A group is a run of blocks, each of 32 columns:
//
//	4 bits, 320 bytes  4 × 64 bytes of quants, 16 × f16 scale d, 16 × f16 minimum m
//	8 bits, 544 bytes  8 × 64 bytes of quants, 16 × f16 scale d
//
// Each 64 bytes hold four bytes for each of the 16 rows in turn, which are the
// row's next four columns: one 512-bit multiply-add against a broadcast of four
// activations advances 16 rows, without shuffles or horizontal sums. In the
// 4-bit form byte i of line j holds column 8j+i in its low and 8j+4+i in its high
// nibble. A weight is d·q + m, with q in 0…15, or d·q with q in -128…127.
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
