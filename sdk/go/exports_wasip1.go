//go:build wasip1

package wasmeter

import "unsafe"

// Buffers of the ABI. They are package variables so that the garbage
// collector keeps them while the host holds their addresses.
var (
	input  []uint64 // words, since the ABI wants it 8-aligned
	output JSON
)

//go:wasmexport wasmeter_abi_v1
func abiVersion() int32 { return 0 }

//go:wasmexport wasmeter_buffer
func buffer(need uint32) uint32 {
	words := (int(need) + 7) / 8
	if len(input) < words {
		// Twice what is needed, so that slowly growing frames don't make
		// a buffer each.
		input = make([]uint64, 2*words)
	}
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(input))))
}

// received is the part of the buffer that the host wrote.
func received(n uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(input))), len(input)*8)[:n:n]
}

//go:wasmexport wasmeter_init
func start(n uint32) int32 {
	if registered.Init != nil {
		if err := registered.Init(received(n)); err != nil {
			Log(Error, err.Error())
			return -1
		}
	}
	return registered.mask()
}

//go:wasmexport wasmeter_shape
func shape(n uint32) uint64 {
	result := registered.shape(received(n), &output)
	if len(result) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(result))))<<32 | uint64(len(result))
}

//go:wasmimport wasmeter_v1 log
func hostLog(level int32, text unsafe.Pointer, n uint32)

// Log writes a line to the server's log, under the plugin's name. The server
// cuts it at 2 KiB and drops lines when there are too many.
func Log(level Level, text string) {
	hostLog(int32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}
