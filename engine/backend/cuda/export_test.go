//go:build cuda && cgo && linux

package cuda

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

// OpenImage is Open with kernels of another image than the program's.
func OpenImage(o Options, image []byte) (backend.Backend, error) {
	b, err := open(o, image)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// NormsApart lets norms be launches in the steps in which cuBLASLt would multiply, as they
// are then.
func NormsApart(b backend.Backend) backend.Backend {
	own := b.(*Backend)
	own.theirs = func(*op) bool { return own.shape.rows > libraryRows }
	return b
}

// Image is the program's.
func Image() []byte { return kernels.Image() }
