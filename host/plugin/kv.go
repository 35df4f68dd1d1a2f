package plugin

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Limits of the key-value store. The last two are of one plugin.
const (
	maxKeyBytes   = 256
	maxValueBytes = 4 << 10
	maxKeys       = 10_000
	maxKVBytes    = 8 << 20
)

// KV is what plugins remember from one request to another. A key belongs to
// one plugin. A counter is a value of 8 bytes, a little-endian i64; an absent
// one is 0. It is safe for concurrent use, and keeps no slice that it is given.
type KV interface {
	// Get gives a value that the caller doesn't change.
	Get(plugin string, key []byte) (value []byte, found bool, err error)
	// Add adds to a counter and gives the sum.
	Add(plugin string, key []byte, delta int64, ttl time.Duration) (int64, error)
	// Write does all of the writes, or none and says why.
	Write(writes []Write) error
}

// Write sets a value or adds to a counter.
type Write struct {
	Plugin  string
	Key     []byte
	Value   []byte
	Counter bool // adds Delta instead of setting Value
	Delta   int64
	// TTL is how long the value lives; 0 is for good. A counter's counts from
	// its creation, so that one that is added to all day ends on time.
	TTL time.Duration
}

// What a KV refuses.
var (
	// ErrQuota: the plugin has all the keys or bytes that it may have.
	ErrQuota = errors.New("quota")
	// ErrNotCounter: a value that is added to has not 8 bytes.
	ErrNotCounter = errors.New("the value is no counter")
	// ErrOverflow: a counter's sum is beyond an i64.
	ErrOverflow = errors.New("the counter's sum is beyond an i64")

	errTooLarge = errors.New("too large")
)

// leastSum leaves room for the ABI's error codes below it.
const leastSum = math.MinInt64 + 16

func addCounter(n, delta int64) (int64, error) {
	sum := n + delta
	if (sum > n) != (delta > 0) && delta != 0 || sum < leastSum {
		return 0, ErrOverflow
	}
	return sum, nil
}

func counterOf(value []byte, found bool) (int64, error) {
	if !found {
		return 0, nil
	}
	if len(value) != 8 {
		return 0, ErrNotCounter
	}
	return int64(binary.LittleEndian.Uint64(value)), nil
}

func appendCounter(dst []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(n))
}

// MemoryKV keeps values for as long as the process lives.
type MemoryKV struct {
	now func() time.Time

	mu     sync.Mutex // guards spaces and what is in them
	spaces map[string]*kvSpace
}

// NewMemoryKV makes an empty store.
func NewMemoryKV() *MemoryKV { return NewMemoryKVAt(time.Now) }

// NewMemoryKVAt makes an empty store whose values expire by a clock of the
// caller's, which must never go back by much: an hour that is lived again ends
// nothing twice.
func NewMemoryKVAt(now func() time.Time) *MemoryKV {
	return &MemoryKV{now: now, spaces: make(map[string]*kvSpace)}
}

// kvSpace is what one plugin remembers.
type kvSpace struct {
	entries  map[string]*kvEntry
	expiring kvHeap
	bytes    int // of keys and values
}

type kvEntry struct {
	key     string
	value   []byte
	expires time.Time // zero: never
	at      int       // in expiring, -1 if it never expires
}

// Get implements KV.
func (kv *MemoryKV) Get(plugin string, key []byte) ([]byte, bool, error) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	e := kv.space(plugin).entries[string(key)]
	if e == nil {
		return nil, false, nil
	}
	return e.value, true, nil
}

// Add implements KV.
func (kv *MemoryKV) Add(plugin string, key []byte, delta int64, ttl time.Duration) (int64, error) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	w := Write{Plugin: plugin, Key: key, Counter: true, Delta: delta, TTL: ttl}
	if err := kv.write(&w); err != nil {
		return 0, err
	}
	return counterOf(kv.space(plugin).entries[string(key)].value, true)
}

// Write implements KV.
func (kv *MemoryKV) Write(writes []Write) error {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	if len(writes) == 1 {
		return kv.write(&writes[0])
	}
	// What several writes touch is put back if a later one is refused.
	undo := make([]func(), 0, len(writes))
	for i := range writes {
		w := &writes[i]
		s := kv.space(w.Plugin)
		before := s.entries[string(w.Key)]
		if before != nil {
			kept := *before
			before = &kept
		}
		if err := kv.write(w); err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
			return err
		}
		undo = append(undo, func() { s.restore(string(w.Key), before) })
	}
	return nil
}

func (kv *MemoryKV) write(w *Write) error {
	s := kv.space(w.Plugin)
	value, err := s.next(w)
	if err != nil {
		return err
	}
	more, keys := len(w.Key)+len(value), 1
	if e := s.entries[string(w.Key)]; e != nil {
		more, keys = len(value)-len(e.value), 0
	}
	if err := s.room(more, keys); err != nil {
		return err
	}
	s.put(w, value, kv.now())
	return nil
}

// space gives what a plugin remembers, without what has expired.
func (kv *MemoryKV) space(plugin string) *kvSpace {
	s := kv.spaces[plugin]
	if s == nil {
		s = &kvSpace{entries: make(map[string]*kvEntry)}
		kv.spaces[plugin] = s
	}
	for moment := kv.now(); len(s.expiring) > 0 && !s.expiring[0].expires.After(moment); {
		s.remove(s.expiring[0])
	}
	return s
}

// next gives the value that a write leaves.
func (s *kvSpace) next(w *Write) ([]byte, error) {
	if !w.Counter {
		return bytes.Clone(w.Value), nil
	}
	e := s.entries[string(w.Key)]
	n, found := int64(0), e != nil
	if found {
		var err error
		if n, err = counterOf(e.value, true); err != nil {
			return nil, err
		}
	}
	sum, err := addCounter(n, w.Delta)
	if err != nil {
		return nil, err
	}
	return appendCounter(nil, sum), nil
}

// room refuses what does not fit.
func (s *kvSpace) room(bytes, keys int) error {
	if len(s.entries)+keys > maxKeys {
		return fmt.Errorf("%w: %d keys are kept", ErrQuota, maxKeys)
	}
	if s.bytes+bytes > maxKVBytes {
		return fmt.Errorf("%w: %d bytes are kept", ErrQuota, maxKVBytes)
	}
	return nil
}

// put stores the value of a write.
func (s *kvSpace) put(w *Write, value []byte, moment time.Time) {
	e := s.entries[string(w.Key)]
	created := e == nil
	if created {
		e = &kvEntry{key: string(w.Key), at: -1}
		s.entries[e.key] = e
		s.bytes += len(e.key)
	}
	s.bytes += len(value) - len(e.value)
	e.value = value
	if created || !w.Counter {
		expires := time.Time{}
		if w.TTL > 0 {
			expires = moment.Add(w.TTL)
		}
		s.expire(e, expires)
	}
}

func (s *kvSpace) expire(e *kvEntry, at time.Time) {
	e.expires = at
	switch {
	case e.at < 0 && !at.IsZero():
		heap.Push(&s.expiring, e)
	case e.at >= 0 && at.IsZero():
		heap.Remove(&s.expiring, e.at)
	case e.at >= 0:
		heap.Fix(&s.expiring, e.at)
	}
}

func (s *kvSpace) remove(e *kvEntry) {
	if e.at >= 0 {
		heap.Remove(&s.expiring, e.at)
	}
	s.bytes -= len(e.key) + len(e.value)
	delete(s.entries, e.key)
}

// restore puts back what a key had; before is nil if it had nothing.
func (s *kvSpace) restore(key string, before *kvEntry) {
	e := s.entries[key]
	if before == nil {
		s.remove(e)
		return
	}
	s.bytes += len(before.value) - len(e.value)
	e.value = before.value
	s.expire(e, before.expires)
}

// kvHeap orders entries by their end, the next first.
type kvHeap []*kvEntry

func (h kvHeap) Len() int           { return len(h) }
func (h kvHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h kvHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *kvHeap) Push(e any) {
	entry := e.(*kvEntry)
	entry.at = len(*h)
	*h = append(*h, entry)
}

// Pop implements heap.Interface.
func (h *kvHeap) Pop() any {
	last := (*h)[len(*h)-1]
	last.at = -1
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
