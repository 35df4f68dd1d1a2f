package plugin

import (
	"errors"
	"fmt"
	"time"
)

// Limits of what one call may ask for through imports.
const (
	maxRecords     = 32
	maxRecordBytes = 16 << 10 // of one record
	maxWrites      = 64
	maxSamples     = 256
)

// Record is a billing or audit record that a plugin emitted in its finish.
// With the attempt's id, Plugin and Index make the key by which a ledger
// takes it once, however often the call is repeated.
type Record struct {
	Plugin string
	Index  int   // of the record among those of this call
	Kind   int32 // the plugin's own
	Data   []byte
	// ClockUnixNS is what the plugin's clock showed in this call, so that a
	// replay can show it again; 0 if it was not read.
	ClockUnixNS int64
}

// effects are what a call asked for through its imports. They are kept until
// the call has ended well, and dropped with it otherwise.
type effects struct {
	records []Record
	writes  []Write
	samples []Sample
	clock   int64  // Unix ns; 0: not read
	bytes   []byte // what records and writes are slices of
}

func (e *effects) reset() {
	e.records, e.writes, e.samples, e.clock, e.bytes = e.records[:0], e.writes[:0], e.samples[:0], 0, e.bytes[:0]
}

// keep copies b, which may be a view of guest memory.
func (e *effects) keep(b []byte) []byte {
	from := len(e.bytes)
	e.bytes = append(e.bytes, b...)
	return e.bytes[from:len(e.bytes):len(e.bytes)]
}

// add copies records and writes of a call that clock was shown in.
func (e *effects) add(call *effects) {
	for _, r := range call.records {
		r.Data, r.ClockUnixNS = e.keep(r.Data), call.clock
		e.records = append(e.records, r)
	}
	for _, w := range call.writes {
		w.Key, w.Value = e.keep(w.Key), e.keep(w.Value)
		e.writes = append(e.writes, w)
	}
}

// settle ends a call that succeeded: samples go to the observer; records and
// writes of a finish go to the caller, who commits them with the frame. Of a
// synthetic request nothing is kept.
func (in *instance) settle(into *result) {
	e := &in.effects
	if in.synthetic {
		return
	}
	if sampled := in.plugin.host.sampled; sampled != nil {
		for _, s := range e.samples {
			sampled(s)
		}
	}
	into.effects.add(e)
}

// emit keeps a record of the finish under way and returns its index.
func (in *instance) emit(kind int32, data []byte) int32 {
	e := &in.effects
	switch {
	case in.hook != HookFinish:
		return errorUnavailable
	case len(data) > maxRecordBytes:
		return errorTooLarge
	case len(e.records) == maxRecords:
		return errorQuota
	}
	s := &in.scanner
	s.reset(data)
	if s.peek() != '{' {
		return errorDenied
	}
	s.value(1)
	if s.end() != nil {
		return errorDenied
	}
	index := len(e.records)
	e.records = append(e.records, Record{Plugin: in.plugin.name, Index: index, Kind: kind, Data: e.keep(data)})
	return int32(index)
}

// errInInit is an import of a plugin that begins: instances are made when they
// are needed, so nothing may come of how many there are.
var errInInit = errors.New("not in init")

// read gives a value as the call sees it: with what it has written itself.
func (in *instance) read(key []byte) (value []byte, found bool, err error) {
	if in.hook == 0 {
		return nil, false, errInInit
	}
	value, found, err = in.plugin.host.kv.Get(in.plugin.name, key)
	if err != nil {
		return nil, false, err
	}
	for i := range in.effects.writes {
		w := &in.effects.writes[i]
		if string(w.Key) != string(key) {
			continue
		}
		if !w.Counter {
			value, found = w.Value, true
			continue
		}
		// Its sum was computed when it was added, and fits.
		n, err := counterOf(value, found)
		if err != nil {
			return nil, false, err
		}
		value, found = appendCounter(nil, n+w.Delta), true
	}
	return value, found, nil
}

// set writes a value at once, or in a finish with the frame.
func (in *instance) set(key, value []byte, ttl time.Duration) error {
	if in.hook == 0 {
		return errInInit
	}
	if len(key) > maxKeyBytes || len(value) > maxValueBytes {
		return errTooLarge
	}
	w := Write{Plugin: in.plugin.name, Key: key, Value: value, TTL: ttl}
	if !in.deferred() {
		return in.plugin.host.kv.Write([]Write{w})
	}
	w.Key, w.Value = in.effects.keep(key), in.effects.keep(value)
	if len(in.effects.writes) == maxWrites {
		return fmt.Errorf("%w: %d writes in one call", ErrQuota, maxWrites)
	}
	in.effects.writes = append(in.effects.writes, w)
	return nil
}

// add adds to a counter at once, or in a finish with the frame: then the sum
// is the one that there would be without other requests.
func (in *instance) add(key []byte, delta int64, ttl time.Duration) (int64, error) {
	if in.hook == 0 {
		return 0, errInInit
	}
	if len(key) > maxKeyBytes {
		return 0, errTooLarge
	}
	if !in.deferred() {
		return in.plugin.host.kv.Add(in.plugin.name, key, delta, ttl)
	}
	if len(in.effects.writes) == maxWrites {
		return 0, fmt.Errorf("%w: %d writes in one call", ErrQuota, maxWrites)
	}
	value, found, err := in.read(key)
	if err != nil {
		return 0, err
	}
	n, err := counterOf(value, found)
	if err != nil {
		return 0, err
	}
	sum, err := addCounter(n, delta)
	if err != nil {
		return 0, err
	}
	in.effects.writes = append(in.effects.writes, Write{
		Plugin: in.plugin.name, Key: in.effects.keep(key), Counter: true, Delta: delta, TTL: ttl,
	})
	return sum, nil
}

// deferred reports whether the call's writes wait for its end: those of a
// finish are committed with the frame, those of a synthetic request never.
func (in *instance) deferred() bool { return in.hook == HookFinish || in.synthetic }
