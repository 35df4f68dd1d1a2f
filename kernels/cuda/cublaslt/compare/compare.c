// Compiles where api.h says what NVIDIA's cublasLt.h says: constants, sizes, and functions, which C lets be declared twice only
// with the same types. compare.sh gives it the header.
#define CUBLASLT_COMPARE
#include "../api.h"

#define F(result, name, parameters) result name parameters;
LT_FUNCTIONS(F)
#undef F

#define C(name, value, theirs) _Static_assert((long)name == (long)theirs, #theirs);
LT_CONSTANTS(C)
#undef C
