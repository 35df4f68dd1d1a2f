// Package model knows the architectures: how a file's tensors become a forward
// pass. Each architecture is one readable file that names the operations of
// package backend in order.
package model

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// Model computes logits for batches. The engine's loop owns it: no method is
// called from two goroutines at a time.
type Model interface {
	// Shape describes what the engine must know to run the model.
	Shape() Shape
	// Reserve makes the KV cache: blocks of blockSize positions. It is called
	// once, before the first Forward.
	Reserve(blocks, blockSize int) error
	// Forward computes one step and returns the logits of the rows in the
	// batch's Sample list: [len(b.Sample), Vocab] row-major, valid until the
	// next Forward. An error is of this step alone, unless it says otherwise.
	Forward(b *backend.Batch) ([]float32, error)
	// Close releases the device.
	Close() error
}

// Sharer is a Model that lends the threads of its backend, if it has some on the
// host.
type Sharer backend.Sharer

// Timer is a Model that asks its backend for the device's own clock.
type Timer backend.Timer

// Drawer is a Model that draws tokens on its device, and computes a step while the
// next is prepared, if its backend does.
type Drawer interface {
	// DrawLimits is the backend's; no rows can be drawn from where it has none.
	DrawLimits() (rows, logprobs int)
	// Queue begins a step that draws the tokens of all rows in Sample, as the batch's
	// Draws say, and does not wait for it: see backend.Drawer.
	Queue(b *backend.Batch) error
	// Wait is the backend's.
	Wait() ([]sample.Token, error)
}

// Shape is what the engine and the host must know of a model.
type Shape struct {
	// Name is the model's own name, from its file.
	Name string
	// Architecture is the file's word for the family: "llama".
	Architecture string
	// Device says what computes, for people.
	Device string
	// Vocab is the number of logits of a row.
	Vocab int
	// Context is the longest sequence the model was made for, in tokens.
	Context int
	// KVBytes is the memory that one position takes in the cache, all layers.
	KVBytes int64
	// KVReserved tells that the cache's memory is the device's own, all of it taken
	// by Reserve; else it is the machine's, and taken as positions are written.
	KVReserved bool
	// MaxRows is the largest batch, in rows.
	MaxRows int
}
