// Package cuda is the backend that computes on an NVIDIA GPU. Its kernels are
// those of kernels/cuda; here are the weights on the device, the paged cache, and
// how a step becomes launches.
//
// # A step
//
// The operations that a model names are recorded as a list (list.go) and fused by
// a peephole (fuse.go): a norm goes into the product that reads it, into what ends the
// branch before it, or half into each, and what stands between a layer's products and its attention
// goes into the attention of single rows. Sync
// then uploads the step's integers by one copy, launches the list, fetches the
// logits by one copy, and waits for an event.
//
// Where the batch says how its tokens are drawn, Queue takes the place of Sync: the
// draws are uploaded with the integers (draws.go), the kernels that draw are the end of
// the list, and Wait fetches the tokens (draw.go). Two steps may be under way, each with
// memory of its own on the host (flight.go). On the device they follow each other in one
// stream and share all memory; so the second finds what the first has drawn, and
// computes tokens that the host does not know.
//
// A step in which every sequence has one row, or a few whose guesses are checked, and
// all give logits is a decode step: each row attends by itself, with the table of its
// sequence. It is padded to a power of two of rows and captured as a graph, which later
// steps of as many rows launch whole, as long as their list is the same
// (graph.go). Such a step allocates nothing, neither in Go nor on the device, and
// launches one graph.
//
// Products of a prompt's step with 16-bit weights can be cuBLASLt's instead of ours, if
// the options say so (library.go).
//
// # Results
//
// Rows do not depend on the other rows of their batch, but the number of rows
// chooses the kernels, whose sums have different orders and whose operands
// different precision: the same prompt alone and among others gives logits that
// are close, not equal.
//
// All that needs the driver has the build tag cuda; without it, Open says so.
package cuda
