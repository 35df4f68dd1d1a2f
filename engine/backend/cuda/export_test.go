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

// Image is the program's.
func Image() []byte { return kernels.Image() }
