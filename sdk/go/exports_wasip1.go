//go:build wasip1

package wasmeter

import "unsafe"

// Buffers of the ABI. They are package variables so that the garbage
// collector keeps them while the host holds their addresses.
var (
	input  []uint64 // words, since the ABI wants it 8-aligned
	output Answer
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
			// To stderr, which is the log too: a call of Log here would make every
			// plugin import it.
			println(err.Error())
			return -1
		}
	}
	return registered.mask()
}

//go:wasmexport wasmeter_request
func request(n uint32) uint64 { return call(registered.Request, n) }

//go:wasmexport wasmeter_shape
func shape(n uint32) uint64 { return call(registered.Shape, n) }

//go:wasmexport wasmeter_chunk
func chunk(n uint32) uint64 { return call(registered.Chunk, n) }

//go:wasmexport wasmeter_finish
func finish(n uint32) int32 {
	if registered.Finish != nil {
		if err := registered.Finish(Request{received(n)}); err != nil {
			println(err.Error())
			return -1
		}
	}
	return 0
}

// call runs a hook on the frame in the buffer and packs the result document's
// address and length.
func call(hook func(Request, *Answer), n uint32) uint64 {
	if hook == nil {
		return 0
	}
	result := answer(hook, received(n), &output)
	if len(result) == 0 {
		return 0
	}
	return uint64(uintptr(pointer(result)))<<32 | uint64(len(result))
}
