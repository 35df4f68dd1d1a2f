package cublaslt

import "fmt"

// Type is the type of W and X.
type Type int

// The types.
const (
	BF16 Type = iota
	F16
)

func (t Type) String() string {
	if t == F16 {
		return "F16"
	}
	return "BF16"
}

// WorkspaceBytes is what NVIDIA recommends for Hopper, its largest. Source: cuBLAS
// Library, cublasSetWorkspace.
const WorkspaceBytes = 32 << 20

// Shape is what the choice of a kernel depends on.
type Shape struct {
	Type Type
	// Rows and Cols are those of W, X the rows of X.
	Rows, Cols, X int
	// Biased says that a bias is added.
	Biased bool
}

// String names the product in errors: 512 rows × [14336, 4096]ᵀ of BF16.
func (s Shape) String() string {
	text := fmt.Sprintf("%d rows × [%d, %d]ᵀ of %v", s.X, s.Rows, s.Cols, s.Type)
	if s.Biased {
		text += " with bias"
	}
	return text
}
