// The part of cuBLASLt that is used, declared by hand, so that building needs no package of 600 MB. Source: the cuBLAS
// Library documentation, chapter "Using the cuBLASLt API", and cublasLt.h of CUDA 12.8. With CUBLASLT_COMPARE the types are
// those of NVIDIA's header, and check.c declares the functions a second time: a C compiler refuses what differs.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef CUBLASLT_COMPARE
#include <cublasLt.h>
typedef cublasStatus_t lt_status;
typedef cudaDataType_t lt_type;
typedef cublasComputeType_t lt_compute;
typedef cublasLtMatmulDescAttributes_t lt_desc_attribute;
typedef cublasLtMatmulPreferenceAttributes_t lt_preference_attribute;
typedef cublasLtHandle_t lt_handle;
typedef cublasLtMatmulDesc_t lt_desc;
typedef cublasLtMatrixLayout_t lt_layout;
typedef cublasLtMatmulPreference_t lt_preference;
typedef cublasLtMatmulAlgo_t lt_algo;
typedef cublasLtMatmulHeuristicResult_t lt_heuristic;
typedef cudaStream_t lt_stream;
#else
// C's enums, which are as wide as an int.
typedef int lt_status, lt_type, lt_compute, lt_desc_attribute, lt_preference_attribute;
typedef struct lt_context *lt_handle;
typedef struct lt_desc_opaque *lt_desc;
typedef struct lt_layout_opaque *lt_layout;
typedef struct lt_preference_opaque *lt_preference;
typedef struct CUstream_st *lt_stream;  // the driver's CUstream and the runtime's cudaStream_t are the same
typedef struct { uint64_t data[8]; } lt_algo;
typedef struct {
	lt_algo algo;
	size_t workspaceSize;
	lt_status state;
	float wavesCount;
	int reserved[4];
} lt_heuristic;
#endif
_Static_assert(sizeof(lt_status) == 4 && sizeof(lt_type) == 4 && sizeof(lt_compute) == 4, "enums");
_Static_assert(sizeof(lt_desc_attribute) == 4 && sizeof(lt_preference_attribute) == 4, "enums");
_Static_assert(sizeof(lt_algo) == 64, "cublasLtMatmulAlgo_t");
_Static_assert(offsetof(lt_heuristic, workspaceSize) == 64 && offsetof(lt_heuristic, state) == 72 && sizeof(lt_heuristic) == 96, "cublasLtMatmulHeuristicResult_t");

// name, and what NVIDIA's header calls it.
#define LT_CONSTANTS(C)                                                          \
	C(LT_SUCCESS, 0, CUBLAS_STATUS_SUCCESS)                                      \
	C(LT_ALLOC_FAILED, 3, CUBLAS_STATUS_ALLOC_FAILED)                            \
	C(LT_INVALID_VALUE, 7, CUBLAS_STATUS_INVALID_VALUE)                          \
	C(LT_EXECUTION_FAILED, 13, CUBLAS_STATUS_EXECUTION_FAILED)                   \
	C(LT_NOT_SUPPORTED, 15, CUBLAS_STATUS_NOT_SUPPORTED)                         \
	C(LT_R_32F, 0, CUDA_R_32F)                                                   \
	C(LT_R_16F, 2, CUDA_R_16F)                                                   \
	C(LT_R_16BF, 14, CUDA_R_16BF)                                                \
	C(LT_COMPUTE_32F, 68, CUBLAS_COMPUTE_32F)                                    \
	C(LT_OP_N, 0, CUBLAS_OP_N)                                                   \
	C(LT_OP_T, 1, CUBLAS_OP_T)                                                   \
	C(LT_DESC_TRANSA, 3, CUBLASLT_MATMUL_DESC_TRANSA)                            \
	C(LT_DESC_TRANSB, 4, CUBLASLT_MATMUL_DESC_TRANSB)                            \
	C(LT_DESC_EPILOGUE, 7, CUBLASLT_MATMUL_DESC_EPILOGUE)                        \
	C(LT_DESC_BIAS_POINTER, 8, CUBLASLT_MATMUL_DESC_BIAS_POINTER)                \
	C(LT_EPILOGUE_DEFAULT, 1, CUBLASLT_EPILOGUE_DEFAULT)                         \
	C(LT_EPILOGUE_BIAS, 4, CUBLASLT_EPILOGUE_BIAS)                               \
	C(LT_PREFERENCE_MAX_WORKSPACE, 1, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)

enum {
#define C(name, value, theirs) name = value,
	LT_CONSTANTS(C)
#undef C
};

#define LT_FUNCTIONS(F)                                                                                          \
	F(size_t, cublasLtGetVersion, (void))                                                                        \
	F(const char *, cublasLtGetStatusName, (lt_status status))                                                   \
	F(lt_status, cublasLtCreate, (lt_handle * handle))                                                           \
	F(lt_status, cublasLtDestroy, (lt_handle handle))                                                            \
	F(lt_status, cublasLtMatmulDescCreate, (lt_desc * desc, lt_compute compute, lt_type scale))                  \
	F(lt_status, cublasLtMatmulDescDestroy, (lt_desc desc))                                                      \
	F(lt_status, cublasLtMatmulDescSetAttribute, (lt_desc desc, lt_desc_attribute a, const void *value, size_t bytes)) \
	F(lt_status, cublasLtMatrixLayoutCreate, (lt_layout * layout, lt_type type, uint64_t rows, uint64_t cols, int64_t ld)) \
	F(lt_status, cublasLtMatrixLayoutDestroy, (lt_layout layout))                                                \
	F(lt_status, cublasLtMatmulPreferenceCreate, (lt_preference * p))                                            \
	F(lt_status, cublasLtMatmulPreferenceDestroy, (lt_preference p))                                             \
	F(lt_status, cublasLtMatmulPreferenceSetAttribute,                                                           \
	  (lt_preference p, lt_preference_attribute a, const void *value, size_t bytes))                             \
	F(lt_status, cublasLtMatmulAlgoGetHeuristic,                                                                 \
	  (lt_handle handle, lt_desc desc, lt_layout a, lt_layout b, lt_layout c, lt_layout d, lt_preference p, int requested, \
	   lt_heuristic results[], int *found))                                                                      \
	F(lt_status, cublasLtMatmul,                                                                                 \
	  (lt_handle handle, lt_desc desc, const void *alpha, const void *a, lt_layout la, const void *b, lt_layout lb, \
	   const void *beta, const void *c, lt_layout lc, void *d, lt_layout ld, const lt_algo *algo, void *workspace, \
	   size_t workspace_bytes, lt_stream stream))
