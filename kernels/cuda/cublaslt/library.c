//go:build cuda && cgo && linux

// cuBLASLt, loaded at run time, and its calls in the order that one product needs.

#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// The library is never unloaded: it holds state of the device's context, and NVIDIA's libraries do not promise to go.
lt_library *wasmeter_lt_load(const char *path, char *text, int size) {
	void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!found) {
		const char *why = dlerror();
		snprintf(text, size, "%s", why ? why : "no reason given");
		return NULL;
	}
	lt_library *l = calloc(1, sizeof *l);
	if (!l) {
		snprintf(text, size, "out of memory");
		return NULL;
	}
#define F(result, name, parameters)                           \
	*(void **)&l->name = dlsym(found, #name);                  \
	if (!l->name) {                                           \
		snprintf(text, size, "%s has no function %s", path, #name); \
		free(l);                                              \
		return NULL;                                          \
	}
	LT_FUNCTIONS(F)
#undef F
	return l;
}

size_t wasmeter_lt_version(lt_library *l) { return l->cublasLtGetVersion(); }

const char *wasmeter_lt_status_name(lt_library *l, lt_status status) { return l->cublasLtGetStatusName(status); }

static const lt_outcome good;

// Returns from the function it stands in, with the call's name, if the call fails.
#define TRY(name, ...)                                                 \
	do {                                                               \
		lt_status status_ = l->name(__VA_ARGS__);                      \
		if (status_ != LT_SUCCESS) return (lt_outcome){status_, #name}; \
	} while (0)

lt_outcome wasmeter_lt_create(lt_library *l, lt_handle *handle) {
	TRY(cublasLtCreate, handle);
	return good;
}

lt_outcome wasmeter_lt_destroy(lt_library *l, lt_handle handle) {
	TRY(cublasLtDestroy, handle);
	return good;
}

static lt_outcome set(lt_library *l, lt_desc desc, lt_desc_attribute a, int32_t value) {
	TRY(cublasLtMatmulDescSetAttribute, desc, a, &value, sizeof value);
	return good;
}

static lt_outcome set_bias(lt_library *l, lt_desc desc, const void *bias) {
	TRY(cublasLtMatmulDescSetAttribute, desc, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
	return good;
}

static lt_outcome describe(lt_library *l, lt_shape s, lt_plan *p) {
	TRY(cublasLtMatmulDescCreate, &p->desc, LT_COMPUTE_32F, LT_R_32F);
	lt_outcome o = set(l, p->desc, LT_DESC_TRANSA, LT_OP_T);
	if (o.status == LT_SUCCESS) o = set(l, p->desc, LT_DESC_TRANSB, LT_OP_N);
	if (o.status == LT_SUCCESS && s.biased) o = set(l, p->desc, LT_DESC_EPILOGUE, LT_EPILOGUE_BIAS);
	// The choice of an algorithm looks at the alignment of the pointer alone; the operands are aligned as much.
	if (o.status == LT_SUCCESS && s.biased) o = set_bias(l, p->desc, (const void *)256);
	if (o.status != LT_SUCCESS) return o;
	// Rows and columns as cuBLASLt has them, column-major: a row of ours is a column.
	TRY(cublasLtMatrixLayoutCreate, &p->w, s.type, s.cols, s.rows, s.cols);
	TRY(cublasLtMatrixLayoutCreate, &p->x, s.type, s.cols, s.x, s.cols);
	TRY(cublasLtMatrixLayoutCreate, &p->y, LT_R_32F, s.rows, s.x, s.rows);
	return good;
}

static lt_outcome choose(lt_library *l, lt_handle handle, lt_preference preference, size_t workspace, lt_plan *p) {
	uint64_t bytes = workspace;
	TRY(cublasLtMatmulPreferenceSetAttribute, preference, LT_PREFERENCE_MAX_WORKSPACE, &bytes, sizeof bytes);
	lt_heuristic best = {0};
	int found = 0;
	TRY(cublasLtMatmulAlgoGetHeuristic, handle, p->desc, p->w, p->x, p->y, p->y, preference, 1, &best, &found);
	if (found < 1) return (lt_outcome){LT_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic"};
	if (best.state != LT_SUCCESS) return (lt_outcome){best.state, "cublasLtMatmulAlgoGetHeuristic"};
	p->algo = best.algo;
	p->workspace = best.workspaceSize;
	return good;
}

// wasmeter_lt_plan describes a product and asks for an algorithm. The plan is to be forgotten, after a failure too.
lt_outcome wasmeter_lt_plan(lt_library *l, lt_handle handle, lt_shape shape, size_t workspace, lt_plan *plan) {
	lt_outcome o = describe(l, shape, plan);
	if (o.status != LT_SUCCESS) return o;
	lt_preference preference;
	TRY(cublasLtMatmulPreferenceCreate, &preference);
	o = choose(l, handle, preference, workspace, plan);
	l->cublasLtMatmulPreferenceDestroy(preference);
	return o;
}

// wasmeter_lt_forget gives a plan's descriptions back. Work that is under way has its own copies.
void wasmeter_lt_forget(lt_library *l, lt_plan *p) {
	if (p->desc) l->cublasLtMatmulDescDestroy(p->desc);
	lt_layout layouts[] = {p->w, p->x, p->y};
	for (int i = 0; i < 3; i++)
		if (layouts[i]) l->cublasLtMatrixLayoutDestroy(layouts[i]);
	*p = (lt_plan){0};
}

lt_outcome wasmeter_lt_multiply(lt_library *l, lt_handle handle, lt_plan *p, lt_operands o, uint64_t workspace, size_t bytes, void *stream) {
	if (o.bias) {
		lt_outcome set = set_bias(l, p->desc, (const void *)o.bias);
		if (set.status != LT_SUCCESS) return set;
	}
	const void *w = (const void *)o.w, *x = (const void *)o.x;
	void *y = (void *)o.y;
	// alpha and beta are read before the call returns (pointer mode host).
	TRY(cublasLtMatmul, handle, p->desc, &o.alpha, w, p->w, x, p->x, &o.beta, y, p->y, y, p->y, &p->algo, (void *)workspace, bytes,
	    (lt_stream)stream);
	return good;
}
