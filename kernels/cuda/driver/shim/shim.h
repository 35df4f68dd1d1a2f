// What shim.c offers to Go; see there.
int wasmeter_cuda_open(const char *path, char *text, int size);
const char *wasmeter_cuda_lacking(int *from);
const char *wasmeter_cuda_absent(void);
