package plugin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// clockedKV is a store whose time stands still until it is moved.
func clockedKV() (kv *MemoryKV, pass func(time.Duration)) {
	kv = NewMemoryKV()
	moment := time.Unix(1000, 0)
	kv.now = func() time.Time { return moment }
	return kv, func(d time.Duration) { moment = moment.Add(d) }
}

func TestKVTimeToLive(t *testing.T) {
	kv, pass := clockedKV()
	set := func(key string, ttl time.Duration) {
		if err := kv.Write([]Write{{Plugin: "p", Key: []byte(key), Value: []byte("v"), TTL: ttl}}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(key string, want bool) {
		t.Helper()
		if _, found, _ := kv.Get("p", []byte(key)); found != want {
			t.Errorf("%s is there: %v, want %v", key, found, want)
		}
	}
	set("for good", 0)
	set("short", time.Second)
	set("renewed", time.Second)
	set("made short", 0)
	set("made short", time.Second)
	set("made lasting", time.Second)
	set("made lasting", 0)
	pass(time.Second / 2)
	set("renewed", time.Second)
	if n, err := kv.Add("p", []byte("n"), 5, time.Second); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	pass(time.Second / 2)
	has("short", false)
	has("made short", false)
	has("renewed", true)
	has("made lasting", true)
	// A counter lives from its creation, however late it is added to.
	if n, err := kv.Add("p", []byte("n"), 1, time.Second); n != 6 || err != nil {
		t.Errorf("got %d, %v; want 6", n, err)
	}
	pass(time.Second / 2)
	has("renewed", false)
	if n, err := kv.Add("p", []byte("n"), 1, time.Second); n != 1 || err != nil {
		t.Errorf("after its end: got %d, %v; want 1", n, err)
	}
	pass(time.Hour)
	has("for good", true)
	if s := kv.spaces["p"]; len(s.entries) != 2 || len(s.expiring) != 0 || s.bytes != len("for goodvmade lastingv") {
		t.Errorf("%d entries, %d expiring, %d bytes; want 2, 0 and 22", len(s.entries), len(s.expiring), s.bytes)
	}
}

func TestKVQuota(t *testing.T) {
	kv, pass := clockedKV()
	write := func(plugin, key string, value int) error {
		return kv.Write([]Write{{Plugin: plugin, Key: []byte(key), Value: make([]byte, value), TTL: time.Minute}})
	}
	for i := range maxKeys {
		if err := write("keys", fmt.Sprint(i), 0); err != nil {
			t.Fatal(i, err)
		}
	}
	for i := range maxKVBytes / (maxValueBytes + 4) {
		if err := write("bytes", fmt.Sprintf("%04d", i), maxValueBytes); err != nil {
			t.Fatal(i, err)
		}
	}
	for name, err := range map[string]error{
		"a key":          write("keys", "one more", 0),
		"a value":        write("bytes", "one more", maxValueBytes),
		"a longer value": kv.Write([]Write{{Plugin: "bytes", Key: []byte("0000"), Value: make([]byte, 2*maxValueBytes)}}),
	} {
		if !errors.Is(err, ErrQuota) {
			t.Errorf("%s more: got %v, want a quota", name, err)
		}
	}
	if _, err := kv.Add("keys", []byte("one more"), 1, 0); !errors.Is(err, ErrQuota) {
		t.Errorf("a counter more: got %v, want a quota", err)
	}
	if err := write("keys", "17", 1); err != nil {
		t.Errorf("a known key: %v", err)
	}
	if err := write("other", "one more", 0); err != nil {
		t.Errorf("another plugin: %v", err)
	}
	pass(time.Minute)
	if err := write("keys", "one more", 0); err != nil {
		t.Errorf("when they have expired: %v", err)
	}
}

// Several writes are done or none is: random ones, against a plain map that
// is replaced only when all fit.
func TestKVWritesTogether(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	kv, _ := clockedKV()
	type slot struct {
		value   string
		counter int64
		isSum   bool
	}
	model := map[string]slot{}
	refused := 0
	for round := range 2000 {
		next := map[string]slot{}
		for k, v := range model {
			next[k] = v
		}
		var writes []Write
		fits := true
		for range 1 + random.IntN(4) {
			key := fmt.Sprint(random.IntN(8))
			if random.IntN(2) == 0 {
				value := fmt.Sprintf("v%d", random.IntN(100))
				writes = append(writes, Write{Plugin: "p", Key: []byte(key), Value: []byte(value)})
				next[key] = slot{value: value}
				continue
			}
			writes = append(writes, Write{Plugin: "p", Key: []byte(key), Counter: true, Delta: int64(random.IntN(9))})
			old, found := next[key]
			fits = fits && (!found || old.isSum)
			next[key] = slot{counter: old.counter + writes[len(writes)-1].Delta, isSum: true}
		}
		err := kv.Write(writes)
		if (err == nil) != fits {
			t.Fatalf("round %d, seed %d: %+v: got %v, want success %v", round, seed, writes, err, fits)
		}
		if fits {
			model = next
		} else {
			refused++
		}
		bytes := 0
		for key, want := range model {
			value, found, _ := kv.Get("p", []byte(key))
			got := string(value)
			if want.isSum {
				want.value = string(appendCounter(nil, want.counter))
			}
			if got != want.value || !found {
				t.Fatalf("round %d, seed %d: %s is %q, want %q", round, seed, key, got, want.value)
			}
			bytes += len(key) + len(value)
		}
		if s := kv.spaces["p"]; len(s.entries) != len(model) || s.bytes != bytes {
			t.Fatalf("round %d, seed %d: %d entries with %d bytes, want %d with %d", round, seed, len(s.entries), s.bytes, len(model), bytes)
		}
		if random.IntN(50) == 0 {
			kv, _ = clockedKV()
			model = map[string]slot{}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused; the test is wrong")
	}
}

func TestKVIsAtomic(t *testing.T) {
	kv := NewMemoryKV()
	var running sync.WaitGroup
	const goroutines, each = 8, 500
	for range goroutines {
		running.Go(func() {
			for range each {
				if _, err := kv.Add("p", []byte("n"), 1, time.Hour); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if n, err := kv.Add("p", []byte("n"), 0, 0); n != goroutines*each || err != nil {
		t.Errorf("got %d, %v; want %d", n, err, goroutines*each)
	}
}
