// A cuBLASLt for the emulated driver: the functions that kernels/cuda/cublaslt calls, with the meaning that the cuBLAS
// Library documentation gives them ("Using the cuBLASLt API"): matrices are column-major, op(A) is [m, k] and op(B) [k, n],
// D = epilogue(alpha·op(A)·op(B) + beta·C), and the product is work of a stream, which runs when the emulator's streams do.
// What the documentation calls invalid or does not list as supported is refused.
//
// CUBLASLT_EMU has faults, "key=value,…": version=110000; create, heuristic and matmul return that status; unsupported=m has
// no kernel for products of m rows of D.
#define _GNU_SOURCE
#include "../../cublaslt/api.h"

#include <cuda.h>
#include <dlfcn.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

struct lt_context { int unused; };
struct lt_desc_opaque {
	lt_compute compute;
	lt_type scale;
	int32_t transa, transb;
	uint32_t epilogue;
	const float *bias;
};
struct lt_layout_opaque {
	lt_type type;
	uint64_t rows, cols;
	int64_t ld;
};
struct lt_preference_opaque { uint64_t workspace; };

typedef struct {
	CUdeviceptr at;
	size_t bytes;
	int written;
} range;
typedef CUresult work_function(CUstream, const char *, const range *, int, void (*)(void *), void *, void (*)(void *));

// The emulator that the process has loaded, of the two beside this library.
static work_function *emulator(void) {
	static work_function *found;
	if (found) return found;
	Dl_info self;
	if (!dladdr(&found, &self)) return NULL;
	const char *end = strrchr(self.dli_fname, '/');
	int folder = end ? (int)(end + 1 - self.dli_fname) : 0;
	const char *names[] = {"libcuda_emu.so", "libcuda_emu_checked.so"};
	for (int i = 0; i < 2 && !found; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, names[i]);
		void *library = dlopen(path, RTLD_NOLOAD | RTLD_NOW);
		if (library) found = (work_function *)dlsym(library, "emu_library_work");
	}
	return found;
}

// What CUBLASLT_EMU says of a key.
static long setting(const char *key, long otherwise) {
	const char *at = getenv("CUBLASLT_EMU");
	size_t n = strlen(key);
	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, key, n) && at[n] == '=') return atol(at + n + 1);
	return otherwise;
}

API size_t cublasLtGetVersion(void) { return setting("version", 120804); }

API const char *cublasLtGetStatusName(lt_status status) {
	static const char *const names[] = {[0] = "CUBLAS_STATUS_SUCCESS", [1] = "CUBLAS_STATUS_NOT_INITIALIZED",
		[3] = "CUBLAS_STATUS_ALLOC_FAILED", [7] = "CUBLAS_STATUS_INVALID_VALUE", [13] = "CUBLAS_STATUS_EXECUTION_FAILED",
		[15] = "CUBLAS_STATUS_NOT_SUPPORTED"};
	return (size_t)status < sizeof names / sizeof *names && names[status] ? names[status] : "<unknown>";
}

API lt_status cublasLtCreate(lt_handle *handle) {
	if (!emulator()) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
	lt_status fault = setting("create", 0);
	if (!fault && !(*handle = calloc(1, sizeof **handle))) fault = LT_ALLOC_FAILED;
	return fault;
}
API lt_status cublasLtDestroy(lt_handle handle) {
	free(handle);
	return LT_SUCCESS;
}

API lt_status cublasLtMatmulDescCreate(lt_desc *d, lt_compute compute, lt_type scale) {
	if (!(*d = calloc(1, sizeof **d))) return LT_ALLOC_FAILED;
	**d = (struct lt_desc_opaque){.compute = compute, .scale = scale, .transa = LT_OP_N, .transb = LT_OP_N, .epilogue = LT_EPILOGUE_DEFAULT};
	return LT_SUCCESS;
}
API lt_status cublasLtMatmulDescDestroy(lt_desc d) {
	free(d);
	return LT_SUCCESS;
}
API lt_status cublasLtMatmulDescSetAttribute(lt_desc d, lt_desc_attribute a, const void *value, size_t bytes) {
	void *to = a == LT_DESC_TRANSA ? (void *)&d->transa : a == LT_DESC_TRANSB ? (void *)&d->transb
	           : a == LT_DESC_EPILOGUE ? (void *)&d->epilogue : a == LT_DESC_BIAS_POINTER ? (void *)&d->bias : NULL;
	if (!to || !value || bytes != (a == LT_DESC_BIAS_POINTER ? 8 : 4)) return LT_INVALID_VALUE;
	memcpy(to, value, bytes);
	return LT_SUCCESS;
}

API lt_status cublasLtMatrixLayoutCreate(lt_layout *l, lt_type type, uint64_t rows, uint64_t cols, int64_t ld) {
	if (!(*l = calloc(1, sizeof **l))) return LT_ALLOC_FAILED;
	**l = (struct lt_layout_opaque){type, rows, cols, ld};
	return LT_SUCCESS;
}
API lt_status cublasLtMatrixLayoutDestroy(lt_layout l) {
	free(l);
	return LT_SUCCESS;
}

API lt_status cublasLtMatmulPreferenceCreate(lt_preference *p) {
	return (*p = calloc(1, sizeof **p)) ? LT_SUCCESS : LT_ALLOC_FAILED;
}
API lt_status cublasLtMatmulPreferenceDestroy(lt_preference p) {
	free(p);
	return LT_SUCCESS;
}
API lt_status cublasLtMatmulPreferenceSetAttribute(lt_preference p, lt_preference_attribute a, const void *value, size_t bytes) {
	if (a != LT_PREFERENCE_MAX_WORKSPACE || !value || bytes != 8) return LT_INVALID_VALUE;
	memcpy(&p->workspace, value, 8);
	return LT_SUCCESS;
}

// A product, as its descriptions give it: all that its algorithm depends on comes first.
typedef struct {
	uint64_t m, n, k;
	int64_t lda, ldb, ldc, ldd;
	lt_type type;
	int32_t transa, transb;
	uint32_t epilogue;
} problem;

static lt_status problem_of(lt_desc d, lt_layout a, lt_layout b, lt_layout c, lt_layout to, problem *p) {
	lt_layout all[] = {a, b, c, to};
	for (int i = 0; i < 4; i++)
		if (!all[i]->rows || !all[i]->cols || all[i]->ld < (int64_t)all[i]->rows) return LT_INVALID_VALUE;
	int ta = d->transa == LT_OP_T, tb = d->transb == LT_OP_T;
	memset(p, 0, sizeof *p);
	*p = (problem){.m = ta ? a->cols : a->rows, .n = tb ? b->rows : b->cols, .k = ta ? a->rows : a->cols, .lda = a->ld, .ldb = b->ld,
		.ldc = c->ld, .ldd = to->ld, .type = a->type, .transa = d->transa, .transb = d->transb, .epilogue = d->epilogue};
	if ((tb ? b->cols : b->rows) != p->k || c->rows != p->m || c->cols != p->n || to->rows != p->m || to->cols != p->n) return LT_INVALID_VALUE;
	int bf16 = a->type == LT_R_16BF, f16 = a->type == LT_R_16F;
	if (!(bf16 || f16) || b->type != a->type || c->type != LT_R_32F || to->type != LT_R_32F || d->compute != LT_COMPUTE_32F ||
	    d->scale != LT_R_32F || (d->epilogue != LT_EPILOGUE_DEFAULT && d->epilogue != LT_EPILOGUE_BIAS))
		return LT_NOT_SUPPORTED;
	return LT_SUCCESS;
}

// An algorithm's words: a sum of the problem that it is for, and its workspace.
static uint64_t sum_of(const problem *p) {
	uint64_t sum = 14695981039346656037u;  // FNV-1a
	for (size_t i = 0; i < sizeof *p; i++) sum = (sum ^ ((const unsigned char *)p)[i]) * 1099511628211u;
	return sum;
}

API lt_status cublasLtMatmulAlgoGetHeuristic(lt_handle handle, lt_desc d, lt_layout a, lt_layout b, lt_layout c, lt_layout to,
                                             lt_preference preference, int requested, lt_heuristic results[], int *found) {
	*found = 0;
	problem p;
	if (!handle || requested < 1) return LT_INVALID_VALUE;
	lt_status fault = setting("heuristic", 0);
	if (!fault) fault = problem_of(d, a, b, c, to, &p);
	if (fault) return fault;
	if ((uint64_t)setting("unsupported", -1) == p.m) return LT_NOT_SUPPORTED;
	results[0] = (lt_heuristic){.state = LT_SUCCESS, .wavesCount = 1};
	// Long sums are divided where there is memory for their parts.
	if (p.k > 128 && preference->workspace >= 65536) results[0].workspaceSize = 65536;
	results[0].algo.data[0] = sum_of(&p);
	results[0].algo.data[1] = results[0].workspaceSize;
	*found = 1;
	return LT_SUCCESS;
}

typedef struct {
	problem p;
	const uint16_t *a, *b;
	const float *c, *bias;
	float *d, alpha, beta;
	void *workspace;
	size_t workspace_bytes;
} product;

static float widen(lt_type type, uint16_t x) {
	if (type == LT_R_16F) return _cvtsh_ss(x);
	uint32_t bits = (uint32_t)x << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

// Takes vector v of k elements of a column-major matrix into out: column v, or row v of what is not transposed that way.
static void gather(lt_type type, const uint16_t *from, int64_t ld, int column, uint64_t v, uint64_t k, float *out) {
	for (uint64_t i = 0; i < k; i++) out[i] = widen(type, column ? from[v * ld + i] : from[i * ld + v]);
}

static void multiply(void *of) {
	product *w = of;
	const problem *p = &w->p;
	memset(w->workspace, 0xff, w->workspace_bytes);
	float *b = malloc(p->n * p->k * sizeof *b), *a = malloc(p->k * sizeof *a);
	if (!a || !b) abort();
	for (uint64_t j = 0; j < p->n; j++) gather(p->type, w->b, p->ldb, p->transb == LT_OP_N, j, p->k, b + j * p->k);
	for (uint64_t i = 0; i < p->m; i++) {
		gather(p->type, w->a, p->lda, p->transa == LT_OP_T, i, p->k, a);
		for (uint64_t j = 0; j < p->n; j++) {
			float sum = 0;
			for (uint64_t t = 0; t < p->k; t++) sum += a[t] * b[j * p->k + t];
			sum *= w->alpha;
			if (w->beta != 0) sum += w->beta * w->c[i + j * p->ldc];
			if (p->epilogue == LT_EPILOGUE_BIAS) sum += w->bias[i];
			w->d[i + j * p->ldd] = sum;
		}
	}
	free(a);
	free(b);
}

// The bytes of a column-major matrix.
static size_t size_of(lt_layout l) { return ((l->cols - 1) * l->ld + l->rows) * (l->type == LT_R_32F ? 4 : 2); }

API lt_status cublasLtMatmul(lt_handle handle, lt_desc d, const void *alpha, const void *a, lt_layout la, const void *b, lt_layout lb,
                             const void *beta, const void *c, lt_layout lc, void *to, lt_layout lto, const lt_algo *algo,
                             void *workspace, size_t bytes, lt_stream stream) {
	product *w = calloc(1, sizeof *w);
	if (!w) return LT_ALLOC_FAILED;
	lt_status fault = setting("matmul", 0);
	if (!fault) fault = !handle || !alpha || !beta || !algo ? LT_INVALID_VALUE : problem_of(d, la, lb, lc, lto, &w->p);
	if (!fault) {
		size_t needs = algo->data[1];
		int biased = d->epilogue == LT_EPILOGUE_BIAS;
		uintptr_t addresses = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)to | (biased ? (uintptr_t)d->bias : 0);
		// C may be D where their layouts are the same.
		if (algo->data[0] != sum_of(&w->p) || bytes < needs || addresses % 256 || (needs && (uintptr_t)workspace % 256) || (biased && !d->bias) ||
		    (c == to && lc->ld != lto->ld))
			fault = LT_INVALID_VALUE;
		w->workspace = workspace;
		w->workspace_bytes = needs;
	}
	if (fault) {
		free(w);
		return fault;
	}
	w->a = a, w->b = b, w->c = c, w->d = to, w->bias = d->bias;
	memcpy(&w->alpha, alpha, 4);
	memcpy(&w->beta, beta, 4);
	range ranges[6] = {{(CUdeviceptr)a, size_of(la), 0}, {(CUdeviceptr)b, size_of(lb), 0}, {(CUdeviceptr)to, size_of(lto), 1}};
	int n = 3;
	if (w->beta != 0) ranges[n++] = (range){(CUdeviceptr)c, size_of(lc), 0};
	if (w->p.epilogue == LT_EPILOGUE_BIAS) ranges[n++] = (range){(CUdeviceptr)w->bias, 4 * w->p.m, 0};
	if (w->workspace_bytes) ranges[n++] = (range){(CUdeviceptr)workspace, w->workspace_bytes, 1};
	return emulator()(stream, "cublasLtMatmul", ranges, n, multiply, w, free) ? LT_EXECUTION_FAILED : LT_SUCCESS;
}
