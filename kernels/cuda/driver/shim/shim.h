// What shim.c offers to Go; see there.
int wasmeter_cuda_open(const char *path, char *text, int size);
int wasmeter_cuda_lacking(int *from, const char **name);
const char *wasmeter_cuda_absent(void);
