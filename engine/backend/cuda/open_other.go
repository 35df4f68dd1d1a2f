//go:build !(cuda && cgo && linux)

package cuda

import (
	"errors"

	"github.com/wasmeter/wasmeter/engine/backend"
)

// Built tells whether this build can use CUDA.
const Built = false

// Open says that this build can't.
func Open(Options) (backend.Backend, error) {
	return nil, errors.New("this build has no CUDA: build with -tags cuda")
}
