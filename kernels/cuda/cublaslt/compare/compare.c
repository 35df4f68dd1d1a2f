// Compiles where api.h says what NVIDIA's cublasLt.h says: constants, sizes, and functions, which C lets be declared twice only
// with the same types. test.sh compiles it where headers.py has fetched the header; it held for CUDA 12.8.4 and 13.0.2.
#define CUBLASLT_COMPARE
#include "../api.h"

#define F(result, name, parameters) result name parameters;
LT_FUNCTIONS(F)
#undef F

#define C(name, value, theirs) _Static_assert((long)name == (long)theirs, #theirs);
LT_CONSTANTS(C)
#undef C
