// Products for 5 to 16 rows of x: a decode step of some sequences, or drafts. The weights' bytes bound them as they do for
// fewer rows; the tensor cores have the arithmetic, however few of their columns are used.
#include "matmul_tile.cuh"

constexpr int SKINNY_STEP = 128;  // columns; skinnyStep in launch_product.go

KERNEL __launch_bounds__(TILE_THREADS) matmul_skinny_8(PRODUCT_PARAMETERS) { multiply_tokens<8, SKINNY_STEP, true>(PRODUCT_ARGUMENTS, Norms{}); }
KERNEL __launch_bounds__(TILE_THREADS) matmul_skinny_16(PRODUCT_PARAMETERS) { multiply_tokens<16, SKINNY_STEP, true>(PRODUCT_ARGUMENTS, Norms{}); }

EMU_KERNELS(matmul_skinny_8, matmul_skinny_16)
