// Preloaded under call.py. The Python package of Bochs always builds a Cannon Lake,
// which has no VNNI: its constructor is replaced by that of Sapphire Rapids, which has
// both kinds. The other functions are what the package wants of glibc 2.38, for older
// systems.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *_Z23create_corei3_cnl_cpuidP8BX_CPU_C(void *cpu) {
	void *bochs = dlopen(getenv("BOCHSCPU"), RTLD_LAZY | RTLD_NOLOAD);
	void *(*sapphireRapids)(void *) = bochs ? dlsym(bochs, "_Z28create_sapphire_rapids_cpuidP8BX_CPU_C") : NULL;
	if (!sapphireRapids) {
		fprintf(stderr, "BOCHSCPU must name the loaded _bochscpu library\n");
		exit(1);
	}
	return sapphireRapids(cpu);
}

unsigned long long __isoc23_strtoull(const char *s, char **end, int base) { return strtoull(s, end, base); }

int __isoc23_sscanf(const char *s, const char *format, ...) {
	va_list arguments;
	va_start(arguments, format);
	int n = vsscanf(s, format, arguments);
	va_end(arguments);
	return n;
}
