//go:build !(cuda && cgo && linux)

package cuda

import (
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// Open says that this build has no CUDA.
func Open(Options) (backend.Backend, error) { return nil, driver.ErrNotBuilt }
