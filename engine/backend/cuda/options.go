package cuda

import (
	"errors"
	"fmt"
	"log/slog"
)

// Options steer the backend.
type Options struct {
	// Driver is the path of the driver's library. Empty: the system's.
	Driver string
	// Ordinal is the number of the device, from 0, in the driver's order.
	Ordinal int
	// MaxRows is the largest number of rows of a batch. 0: 512.
	MaxRows int
	// MaxSeqs is the number of sequences that are expected to decode at once. More
	// may, in slower steps. 0: 64.
	MaxSeqs int
	// Utilization is the share of the device's free memory that weights, cache and
	// activations may take, 0 … 1. 0: 0.9.
	Utilization float64
	// KVType is how keys and values are stored: KVF16, which is also meant by "".
	KVType string
	// Synchronous waits for every launch, so that an error names the kernel that
	// made it. Steps take many times as long.
	Synchronous bool
	// CuBLASLt says whether NVIDIA's library multiplies prompts with weights of BF16 and
	// F16: CuBLASLtOff, which is also meant by "", CuBLASLtAuto or CuBLASLtOn.
	CuBLASLt string
	// CuBLASLtPath is the path of that library. Empty: the system's.
	CuBLASLtPath string
	// Progress is told how many of the weights' bytes are on the device. Nil: nobody is.
	Progress func(done, total int64)
	// Logger gets warnings, and what multiplies prompts. Nil: nobody does.
	Logger *slog.Logger
}

// KVF16 stores keys and values as float16.
const KVF16 = "f16"

// Whether cuBLASLt is used. On is an error where the library is not there; Auto says so
// and goes on.
const (
	CuBLASLtOff  = "off"
	CuBLASLtAuto = "auto"
	CuBLASLtOn   = "on"
)

// ErrCuBLASLt is in the chain of Open's error where the library was to be used and can't
// be.
var ErrCuBLASLt = errors.New("cublaslt: on")

// The largest options that can be meant.
const (
	maxMaxRows = 1 << 16
	maxOrdinal = 255
)

// Validate reports every option that cannot be.
func (o Options) Validate() error {
	var faults []error
	if o.Ordinal < 0 || o.Ordinal > maxOrdinal {
		faults = append(faults, fmt.Errorf("device: %d is not between 0 and %d", o.Ordinal, maxOrdinal))
	}
	if o.MaxRows < 0 || o.MaxRows > maxMaxRows {
		faults = append(faults, fmt.Errorf("max rows: %d is not between 0 and %d; 0 takes 512", o.MaxRows, maxMaxRows))
	}
	if o.MaxSeqs < 0 || o.MaxSeqs > maxMaxRows {
		faults = append(faults, fmt.Errorf("max sequences: %d is not between 0 and %d; 0 takes 64", o.MaxSeqs, maxMaxRows))
	}
	if !(o.Utilization >= 0 && o.Utilization <= 1) {
		faults = append(faults, fmt.Errorf("memory utilization: %g is not between 0 and 1; 0 takes 0.9", o.Utilization))
	}
	if o.KVType != "" && o.KVType != KVF16 {
		faults = append(faults, fmt.Errorf("cache type: %q is not supported on CUDA: use %s, or --device cpu", o.KVType, KVF16))
	}
	switch o.CuBLASLt {
	case "", CuBLASLtOff, CuBLASLtAuto, CuBLASLtOn:
	default:
		faults = append(faults, fmt.Errorf("cublaslt: %q is not one of %s, %s and %s", o.CuBLASLt, CuBLASLtOff, CuBLASLtAuto, CuBLASLtOn))
	}
	return errors.Join(faults...)
}
