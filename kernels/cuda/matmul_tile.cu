// Products for more than 16 rows of x: prompts, and decode steps of many sequences. From some 100 rows on the tensor cores
// bound them, and before that the decoding of weights and their bytes.
#include "matmul_tile.cuh"

constexpr int TILE_STEP = 64;  // columns; tileStep in launch_product.go

KERNEL __launch_bounds__(TILE_THREADS, 2) matmul_tile(PRODUCT_PARAMETERS, NORM_PARAMETERS) {
  multiply_tokens<64, TILE_STEP, false>(PRODUCT_ARGUMENTS, NORM_ARGUMENTS);
}

EMU_KERNELS(matmul_tile)
