// Package backend is the seam between the models and the devices that compute
// them: a dozen fused operations on opaque handles, not a tensor library.
//
// A model's forward pass names the operations in order; a backend runs them on
// its device. Operations return nothing: the first error of a step is kept and
// returned by Sync, as bufio.Writer does with Flush. The backends are in the
// folders beside this file (cpu, cuda); backendtest is the suite that each must
// pass, with a slow readable twin in float32.
//
// A Backend is owned by the engine's loop: no method is called from two
// goroutines at a time.
package backend

import (
	"errors"
	"time"

	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// ErrNotFinite is the error of a step whose logits hold NaN or infinity: no
// token can be sampled from them.
var ErrNotFinite = errors.New("logits are not finite: the model file is damaged or not supported")

// ErrLost is the error of a step whose device will compute no other: it was reset,
// fell off its bus, or its memory is no longer to be trusted. Only a new process
// gets it back.
var ErrLost = errors.New("the device is lost")

// Tensor is a matrix of activations on the device, [rows, cols] float32
// row-major. Rows beyond the step's batch hold leftovers.
type Tensor interface {
	// Cols is the length of a row.
	Cols() int
}

// Weight is a matrix of parameters on the device, in whatever layout the
// backend likes best; [rows, cols] as y = W·x maps cols to rows.
type Weight interface {
	Rows() int
	Cols() int
}

// KV is a paged cache of keys and values for all layers.
type KV interface {
	// Bytes is the memory that the cache takes on the device.
	Bytes() int64
}

// KVShape describes a KV cache.
type KVShape struct {
	Layers    int
	Blocks    int // number of blocks
	BlockSize int // positions in a block
	Heads     int // key/value heads
	HeadDim   int // values of one head
}

// Rope describes a rotary position embedding. Source: Su et al., RoFormer,
// https://arxiv.org/abs/2104.09864, section 3.2.2.
type Rope struct {
	// Dims is the number of leading values of each head that are rotated.
	Dims int
	// Freqs holds the angle per position of each rotated pair, in radians.
	// [Dims/2]
	Freqs []float32
	// Neox pairs value i with value i+Dims/2; otherwise 2i with 2i+1.
	Neox bool
}

// Activation is the function that gates a feed-forward layer.
type Activation int

const (
	// SiLU is x·sigmoid(x).
	SiLU Activation = iota
	// GELU is the tanh approximation of x·Φ(x).
	GELU
)

// Backend runs the operations of a forward pass on one device.
//
// Every operation works on the rows of the batch given to Begin; "rows" below
// is their number. Tensors are at least that tall.
type Backend interface {
	// Name says what computes, for people: "cpu avx2, 2 threads".
	Name() string
	// MaxRows is the largest number of rows of a batch.
	MaxRows() int

	// NewTensor makes a tensor of MaxRows rows.
	NewTensor(cols int) (Tensor, error)
	// NewWeight takes a matrix (or, with one dimension, a vector as one row)
	// from a model file into the backend's layout. The backend may keep reading
	// t.Data, so the file stays open until Close; its owner is the caller.
	NewWeight(t gguf.Tensor) (Weight, error)
	// NewKV makes a cache of zeros.
	NewKV(s KVShape) (KV, error)
	// KVBytes is the memory that NewKV of this shape takes: it depends on the
	// type in which the backend stores keys and values.
	KVBytes(s KVShape) int64

	// Begin starts a step. The batch must not change until Sync returns.
	Begin(b *Batch)
	// Embed sets dst's row r to the table's row of token r, times scale.
	Embed(dst Tensor, table Weight, scale float32)
	// Norm sets dst to the RMS norm of x times w, row by row.
	// Source: https://arxiv.org/abs/1910.07467.
	Norm(dst, x Tensor, w Weight, eps float32)
	// AddNorm adds the RMS norm of x times w to dst, row by row: the end of a
	// residual branch in models that norm it. x is not changed.
	AddNorm(dst, x Tensor, w Weight, eps float32)
	// MatMul sets dst[i] = x·W[i]ᵀ (+ bias[i], unless nil) for several matrices
	// that share their input.
	MatMul(dst []Tensor, w, bias []Weight, x Tensor)
	// AddMatMul adds x·Wᵀ to dst: the end of each residual branch.
	AddMatMul(dst Tensor, w Weight, x Tensor)
	// GatedMatMul sets dst = act(x·gateᵀ) ⊙ (x·upᵀ).
	GatedMatMul(dst Tensor, gate, up Weight, x Tensor, act Activation)
	// HeadNorm is Norm of each head of x on its own, in place; w is one head
	// long.
	HeadNorm(x Tensor, w Weight, eps float32)
	// Rotate applies the position embedding to each head of x, in place.
	Rotate(x Tensor, headDim int, r Rope)
	// Store puts the keys and values of the batch into their slots.
	Store(kv KV, layer int, k, v Tensor)
	// Attend sets dst to the causal attention of q over each sequence's cache:
	// softmax(scale·q·kᵀ)·v, with query heads grouped over key heads. With a
	// window above 0, a row sees only the last window positions, its own among
	// them (Beltagy et al., https://arxiv.org/abs/2004.05150, section 3.1).
	Attend(dst, q Tensor, kv KV, layer int, scale float32, window int)
	// Logits computes the rows in the batch's Sample list: dst's row i is
	// row Sample[i] of x times Wᵀ, on the host. [len(Sample), w.Rows()]; valid
	// once Sync returned, until the next Begin.
	Logits(w Weight, x Tensor) []float32

	// Sync waits for the step and returns its first error, ErrNotFinite among
	// them. Afterwards the backend can be used again, unless the error is ErrLost.
	// The step may go on from there, with what its tensors hold; but not with what
	// Norm, HeadNorm or Rotate made and an operation before Sync has read already.
	Sync() error
	// Close releases the device and everything on it.
	Close() error
}

// Planner is a Backend that knows before loading whether there is memory for some
// tensors.
type Planner interface {
	// Plan returns an error that says how much is needed and how much there is.
	Plan(tensors []gguf.Tensor) error
}

// Sizer is a Backend that knows how much memory its caches may take.
type Sizer interface {
	// KVMemory is that memory in bytes, once the weights are loaded.
	KVMemory() int64
}

// Timer is a Backend whose device has a clock of its own, which the host's waiting
// does not count in.
type Timer interface {
	// DeviceTime is the time that the device has computed in all steps so far, 0
	// if it is not known.
	DeviceTime() time.Duration
}

// Sharer is a Backend with threads on the host that have nothing to do between
// two steps. They do other work in the meantime; no step may run.
type Sharer interface {
	// Threads is the number of threads, the caller's included.
	Threads() int
	// Share has the threads call do for each of the parts, in any order, and
	// returns when all are done. thread is the number of the one that calls, from
	// 0; each does one part at a time.
	Share(parts int, do func(part, thread int))
}

// Drawer is a Backend that draws tokens where their logits are, and goes on while the
// host prepares the next step. Steps are computed in the order in which they are
// queued, one after the other.
type Drawer interface {
	// DrawLimits returns how many rows of a batch can be drawn from, and how many log
	// probabilities beside the drawn token's can be had.
	DrawLimits() (rows, logprobs int)
	// Draw ends the operations of a batch with Draws in the place of Logits.
	Draw(w Weight, x Tensor)
	// Queue ends a step as Sync does, and does not wait for it: the batch may change
	// when it returns. Two steps may be under way, and all must have been waited for
	// before one that ends with Sync begins. A step that Queue refuses is not under way.
	Queue() error
	// Wait waits for the earliest step under way and returns the tokens of the rows in
	// its Sample list, in order, valid until the next Wait, or the step's error.
	Wait() ([]sample.Token, error)
}
