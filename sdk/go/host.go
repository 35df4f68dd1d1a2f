package wasmeter

import (
	"math"
	"unsafe"
)

// HostError is why the server did not do what it was asked.
type HostError int32

// Host errors.
const (
	Absent      HostError = -1 // there is no such value, metric or series
	DeniedCall  HostError = -2 // it is not what the ABI allows there
	TooLarge    HostError = -3
	BadPointer  HostError = -4
	Quota       HostError = -5 // the plugin, or this call, has all it may have
	Unavailable HostError = -6 // not now, not in this hook, or outside a server
)

// Error gives the error as a few words.
func (e HostError) Error() string {
	switch e {
	case Absent:
		return "absent"
	case DeniedCall:
		return "denied"
	case TooLarge:
		return "too large"
	case BadPointer:
		return "bad pointer"
	case Quota:
		return "quota"
	}
	return "unavailable"
}

// result turns what an import returned into an error.
func result(code int32) error {
	if code >= 0 {
		return nil
	}
	return HostError(code)
}

// Emit appends a billing or audit record, in the hook Finish; record has the
// members of a JSON object. It becomes durable together with the account of
// the request, once, or not at all if the hook fails. It needs the grant emit.
func Emit(kind int32, record *JSON) error {
	emitted = append(record.AppendTo(append(emitted[:0], '{')), '}')
	return result(hostEmit(kind, pointer(emitted), uint32(len(emitted))))
}

// Record gives an empty record for Emit. Its memory is that of the record before,
// which it ends, so that a plugin that emits makes no garbage.
func Record() *JSON {
	record.reset()
	return &record
}

// Memory that records use one after the other; a module runs one call at a time.
var (
	record  JSON
	emitted []byte
)

// MetricAdd adds value to a series of a counter that the configuration gives
// the plugin. metric is its place there; series numbers the combinations of
// label values, the last label changing fastest. It needs the grant metrics.
func MetricAdd(metric, series uint32, value float64) error {
	return result(hostMetricAdd(metric, series, value))
}

// MetricObserve puts value into a histogram, as MetricAdd does.
func MetricObserve(metric, series uint32, value float64) error {
	return result(hostMetricObserve(metric, series, value))
}

// KVGet gives the value of a key; the error Absent says that there is none.
// It needs the grant kv.read.
func KVGet(key string) ([]byte, error) {
	value := make([]byte, 64)
	for {
		n := hostKVGet(textPointer(key), uint32(len(key)), pointer(value), uint32(len(value)))
		if n < 0 {
			return nil, HostError(n)
		}
		if int(n) <= len(value) {
			return value[:n], nil
		}
		value = make([]byte, n)
	}
}

// KVSet sets the value of a key for ttl seconds, 0 for good. In Finish it is
// done when the account of the request is durable, in other hooks at once. It
// needs the grant kv.write, as the next.
func KVSet(key string, value []byte, ttl uint32) error {
	return result(hostKVSet(textPointer(key), uint32(len(key)), pointer(value), uint32(len(value)), ttl))
}

// KVAdd adds delta to a counter and gives the sum; no other call of any
// instance comes between. ttl counts from the counter's creation. In Finish
// the sum is the one without other requests that end at the same time.
func KVAdd(key string, delta int64, ttl uint32) (int64, error) {
	sum := hostKVAdd(textPointer(key), uint32(len(key)), delta, ttl)
	// The errors lie below all sums.
	if code := math.MinInt64 - sum; code <= -1 && code >= -6 {
		return 0, HostError(code)
	}
	return sum, nil
}

// NowUnixNS is the time of day in Unix nanoseconds, the same throughout a
// call. It needs the grant clock.
func NowUnixNS() int64 { return hostNowUnixNS() }

func pointer(b []byte) unsafe.Pointer     { return unsafe.Pointer(unsafe.SliceData(b)) }
func textPointer(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// view gives the bytes as a string, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
