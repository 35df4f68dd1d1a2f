package wasmeter

import "unsafe"

// The functions of the host, as the ABI has them. The linker leaves those out
// of a module that it never calls, so a plugin needs no grant for them.

//go:wasmimport wasmeter_v1 log
func hostLog(level int32, text unsafe.Pointer, n uint32)

//go:wasmimport wasmeter_v1 emit
func hostEmit(kind int32, text unsafe.Pointer, n uint32) int32

//go:wasmimport wasmeter_v1 metric_add
func hostMetricAdd(metric, series uint32, value float64) int32

//go:wasmimport wasmeter_v1 metric_observe
func hostMetricObserve(metric, series uint32, value float64) int32

//go:wasmimport wasmeter_v1 kv_get
func hostKVGet(key unsafe.Pointer, keyLen uint32, buffer unsafe.Pointer, size uint32) int32

//go:wasmimport wasmeter_v1 kv_set
func hostKVSet(key unsafe.Pointer, keyLen uint32, value unsafe.Pointer, valueLen, ttl uint32) int32

//go:wasmimport wasmeter_v1 kv_add
func hostKVAdd(key unsafe.Pointer, keyLen uint32, delta int64, ttl uint32) int64

//go:wasmimport wasmeter_v1 now_unix_ns
func hostNowUnixNS() int64

// Log writes a line to the server's log, under the plugin's name. The server
// cuts it at 2 KiB and drops lines when there are too many.
func Log(level Level, text string) { hostLog(int32(level), textPointer(text), uint32(len(text))) }
