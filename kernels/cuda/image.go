//go:build cuda && cgo && linux

package cuda

import _ "embed"

// image is what `make cuda-kernels` makes of all.cu: machine code for compute
// capability 8.0, 8.9, 9.0 and 10.0, and PTX of 8.0 for what comes later.
//
//go:embed kernels.fatbin
var image []byte

// Image returns the kernels as a fat binary for driver.Device.Load.
func Image() []byte { return image }
