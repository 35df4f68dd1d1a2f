//go:build !wasip1

package wasmeter

import (
	"encoding/binary"
	"math"
	"os"
	"unsafe"
)

// Log writes a line to the server's log; outside a plugin, in a test, to
// stderr.
func Log(_ Level, text string) {
	// A test's stderr that can't be written has no better place to report to.
	_, _ = os.Stderr.WriteString(text + "\n")
}

// Outside holds what plugins ask of the server where there is none, in tests
// of hooks: a test reads the records, and may be the server.
var Outside struct {
	// Records are what Emit was given, each a JSON object.
	Records []string
	// KV has the values; it stays unavailable while it is nil.
	KV map[string][]byte
	// NowUnixNS is the time of day.
	NowUnixNS int64
}

func hostEmit(_ int32, text unsafe.Pointer, n uint32) int32 {
	Outside.Records = append(Outside.Records, string(unsafe.Slice((*byte)(text), n)))
	return int32(len(Outside.Records) - 1)
}

func hostMetricAdd(_, _ uint32, _ float64) int32     { return 0 }
func hostMetricObserve(_, _ uint32, _ float64) int32 { return 0 }

func hostKVGet(key unsafe.Pointer, keyLen uint32, buffer unsafe.Pointer, size uint32) int32 {
	if Outside.KV == nil {
		return int32(Unavailable)
	}
	value, found := Outside.KV[unsafe.String((*byte)(key), keyLen)]
	if !found {
		return int32(Absent)
	}
	copy(unsafe.Slice((*byte)(buffer), size), value)
	return int32(len(value))
}

func hostKVSet(key unsafe.Pointer, keyLen uint32, value unsafe.Pointer, valueLen, _ uint32) int32 {
	if Outside.KV == nil {
		return int32(Unavailable)
	}
	Outside.KV[string(unsafe.Slice((*byte)(key), keyLen))] = append([]byte(nil), unsafe.Slice((*byte)(value), valueLen)...)
	return 0
}

func hostKVAdd(key unsafe.Pointer, keyLen uint32, delta int64, _ uint32) int64 {
	if Outside.KV == nil {
		return math.MinInt64 - int64(Unavailable)
	}
	name := string(unsafe.Slice((*byte)(key), keyLen))
	sum := delta
	if value, found := Outside.KV[name]; found && len(value) == 8 {
		sum += int64(binary.LittleEndian.Uint64(value))
	} else if found {
		return math.MinInt64 - int64(DeniedCall)
	}
	Outside.KV[name] = binary.LittleEndian.AppendUint64(nil, uint64(sum))
	return sum
}

func hostNowUnixNS() int64 { return Outside.NowUnixNS }
