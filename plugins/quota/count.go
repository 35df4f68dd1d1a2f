package main

import (
	"strconv"
	"unsafe"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// Buffers that calls use again, so that a request which passes allocates
// nothing.
var name, number []byte

// view gives a buffer as a string, until it is written again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// standing is how a limit stands for a request.
type standing struct {
	limit *limit
	used  uint64 // used or set aside
	end   uint64 // of the window, Unix seconds
}

// left is how many tokens may still be used.
func (s standing) left() uint64 {
	if s.used >= s.limit.tokens {
		return 0
	}
	return s.limit.tokens - s.used
}

// add adds to the count of a limit in the window of a moment and tells how it
// stands then. The count lives a little longer than its window: its time begins
// when it is made, which is not before the request arrived.
func (t *tier) add(r wasmeter.Request, l *limit, now uint64, tokens int64) (standing, error) {
	start, end := l.window.span(now)
	sum, err := wasmeter.KVAdd(t.key(r, l, start), tokens, uint32(end-now))
	return standing{limit: l, used: uint64(max(sum, 0)), end: end}, err
}

// key names a count: class, whose it is, window and its first second, then the
// owner. Only the last part may hold a space, so no two owners have one key. It
// is valid until the next call.
func (t *tier) key(r wasmeter.Request, l *limit, start uint64) string {
	name = append(append(name[:0], t.Name...), ' ')
	name = append(append(name, ownerNames[l.per]...), ' ')
	name = append(append(name, windowNames[l.window]...), ' ')
	name = strconv.AppendUint(name, start, 10)
	if l.per != perClass {
		name = append(append(name, ' '), r.Tenant()...)
	}
	switch l.per {
	case perModel:
		name = append(append(name, ' '), r.Model()...)
	case perKey:
		name = append(append(name, ' '), r.KeyName()...)
	}
	return view(name)
}
