// What library.c offers to Go; see there.
#pragma once
#include "api.h"

typedef struct {
#define F(result, name, parameters) result(*name) parameters;
	LT_FUNCTIONS(F)
#undef F
} lt_library;

// A call's status, and its name where the status is a failure.
typedef struct {
	lt_status status;
	const char *call;
} lt_outcome;

typedef struct {
	lt_type type;
	int64_t rows, cols, x;
	int biased;
} lt_shape;

typedef struct {
	lt_desc desc;
	lt_layout w, x, y;
	lt_algo algo;
	size_t workspace;  // bytes that the algorithm needs
} lt_plan;

// Addresses on the device; a bias of 0 is none.
typedef struct {
	uint64_t w, x, y, bias;
	float alpha, beta;
} lt_operands;

lt_library *wasmeter_lt_load(const char *path, char *text, int size);
size_t wasmeter_lt_version(lt_library *l);
const char *wasmeter_lt_status_name(lt_library *l, lt_status status);
lt_outcome wasmeter_lt_create(lt_library *l, lt_handle *handle);
lt_outcome wasmeter_lt_destroy(lt_library *l, lt_handle handle);
lt_outcome wasmeter_lt_plan(lt_library *l, lt_handle handle, lt_shape shape, size_t workspace, lt_plan *plan);
void wasmeter_lt_forget(lt_library *l, lt_plan *plan);
lt_outcome wasmeter_lt_multiply(lt_library *l, lt_handle handle, lt_plan *plan, lt_operands o, uint64_t workspace, size_t bytes, void *stream);
