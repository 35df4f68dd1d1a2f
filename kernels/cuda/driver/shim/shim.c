//go:build cuda && cgo && linux

// The slots that the stubs jump through, and the loader that fills them.
//
// Every function of the driver returns a CUresult (an int), so one function
// without parameters can stand in for any of them: the caller's arguments lie in
// registers and on the caller's stack, where they harm nobody (System V AMD64 ABI
// and AAPCS64: the caller cleans up).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

enum {
	no_device = 100, // CUDA_ERROR_NO_DEVICE
	not_found = 500, // CUDA_ERROR_NOT_FOUND
};

static const char *const names[] = {
#define SYMBOL(i, name) #name,
#include "symbols.inc"
#undef SYMBOL
};

enum { count = sizeof names / sizeof names[0] };

static int not_loaded(void) { return no_device; }

// The index of the function that was last called though the driver lacks it, -1
// if none was. Of the thread, since errors are.
static __thread int absent = -1;

#define SYMBOL(i, name) \
	static int absent_##i(void) { absent = i; return not_found; }
#include "symbols.inc"
#undef SYMBOL

static int (*const absents[])(void) = {
#define SYMBOL(i, name) absent_##i,
#include "symbols.inc"
#undef SYMBOL
};

__attribute__((visibility("hidden"))) void *wasmeter_cuda_slot[count] = {
#define SYMBOL(i, name) (void *)not_loaded,
#include "symbols.inc"
#undef SYMBOL
};

// gorgonia.org/cu calls cuInit when its package is initialised, and ends the
// process if that fails. Here the call costs nothing and succeeds: a host without
// a driver starts, and so does one with a driver that nobody asked for.
int cuInit(unsigned flags) {
	(void)flags;
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards what follows, and filling slots
static void *library;

// wasmeter_cuda_open loads the library at path, initialises it and fills the
// slots, once for the process. It returns 0, the CUresult of cuInit, or -1 with
// the loader's words in text. A library whose cuInit failed stays loaded, as
// NVIDIA's does not like to be unloaded; it can be tried again.
int wasmeter_cuda_open(const char *path, char *text, int size) {
	int result = 0;
	pthread_mutex_lock(&mutex);
	if (!library) {
		void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		int (*init)(unsigned) = found ? (int (*)(unsigned))dlsym(found, "cuInit") : NULL;
		if (!init) {
			const char *why = dlerror();
			snprintf(text, size, "%s", why ? why : "no reason given");
			if (found) dlclose(found);
			result = -1;
		} else if ((result = init(0)) == 0) {
			for (int i = 0; i < count; i++) {
				void *function = dlsym(found, names[i]);
				wasmeter_cuda_slot[i] = function ? function : (void *)absents[i];
			}
			library = found;
		}
	}
	pthread_mutex_unlock(&mutex);
	return result;
}

// wasmeter_cuda_lacking gives the name of the first function from *from on that the
// driver lacks, and sets *from behind it; NULL after the last.
const char *wasmeter_cuda_lacking(int *from) {
	while (*from < count) {
		int i = (*from)++;
		if (wasmeter_cuda_slot[i] == (void *)absents[i]) return names[i];
	}
	return NULL;
}

// wasmeter_cuda_absent gives the name of the absent function that this thread
// called last, and forgets it; NULL if it called none.
const char *wasmeter_cuda_absent(void) {
	const char *name = absent < 0 ? NULL : names[absent];
	absent = -1;
	return name;
}
