package ledger

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, _, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// lines decodes the file with the standard library, which did not write it.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var v map[string]any
		if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
			t.Fatalf("line %d: %v: %s", len(out)+1, err, scan.Text())
		}
		out = append(out, v)
	}
	return out
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	f := open(t, path)
	err := f.Append(&Record{
		AttemptID: "a1", Time: time.Unix(1, 5), RequestID: "line\nfeed \xff", Tenant: "acme", KeyName: "alice", Model: "m", Endpoint: "chat", Outcome: "stop",
		PromptTokens: 1, CachedTokens: 2, CompletionTokens: 3, DeviceTime: 4, Frame: []byte{0, 255, 10},
		Emitted:  []Emitted{{Plugin: "billing", Index: 0, Kind: 7, Data: []byte(`{"cost":12345678901234567890}`)}},
		Unpriced: []string{"sla"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := lines(t, path)
	if len(got) != 1 {
		t.Fatalf("%d lines", len(got))
	}
	for k, want := range map[string]any{
		"attempt_id": "a1", "time": "1970-01-01T00:00:01.000000005Z", "request_id": "line\nfeed \uFFFD", "tenant": "acme", "key": "alice", "model": "m",
		"endpoint": "chat", "outcome": "stop", "prompt_tokens": 1., "cached_tokens": 2., "completion_tokens": 3., "device_ns": 4.,
		"frame": base64.StdEncoding.EncodeToString([]byte{0, 255, 10}),
	} {
		if got[0][k] != want {
			t.Errorf("%s: %v, want %v", k, got[0][k], want)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(`"data":{"cost":12345678901234567890}`)) || !bytes.Contains(data, []byte(`"unpriced":["sla"]`)) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestRecordDrafts: the counts stand there where there is speculation, also if
// nothing was guessed, and nowhere else.
func TestRecordDrafts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	f := open(t, path)
	for _, drafts := range []*Drafts{nil, {}, {Drafted: 9, Accepted: 4}} {
		if err := f.Append(&Record{Drafts: drafts}); err != nil {
			t.Fatal(err)
		}
	}
	got := lines(t, path)
	for i, want := range [][2]any{{nil, nil}, {0., 0.}, {9., 4.}} {
		if got[i]["drafted_tokens"] != want[0] || got[i]["accepted_tokens"] != want[1] {
			t.Errorf("record %d: %v drafted, %v accepted, want %v", i, got[i]["drafted_tokens"], got[i]["accepted_tokens"], want)
		}
	}
}

// TestGroups: every record that Append has acknowledged is in the file, once.
func TestGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	f := open(t, path)
	const writers, each = 16, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := f.Append(&Record{AttemptID: fmt.Sprintf("%d-%d", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[any]int{}
	for _, l := range lines(t, path) {
		seen[l["attempt_id"]]++
	}
	if len(seen) != writers*each {
		t.Errorf("%d records, want %d", len(seen), writers*each)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%v stands there %d times", id, n)
		}
	}
}

func TestReopen(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		torn   int64
		whole  int
	}{
		"empty":            {"", 0, 0},
		"whole":            {"{}\n{}\n", 0, 2},
		"torn":             {"{}\n{\"atte", 6, 1},
		"torn from start":  {"{\"a", 3, 0},
		"torn and long":    {"{}\n" + string(bytes.Repeat([]byte("x"), 200<<10)), 200 << 10, 1},
		"whole after long": {"{\"a\":\"" + string(bytes.Repeat([]byte("x"), 200<<10)) + "\"}\n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "usage.jsonl")
			if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			f, torn, err := OpenFile(path)
			if err != nil || torn != c.torn {
				t.Fatalf("torn %d, %v; want %d", torn, err, c.torn)
			}
			if err := f.Append(&Record{AttemptID: "next"}); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if got := lines(t, path); len(got) != c.whole+1 || got[c.whole]["attempt_id"] != "next" {
				t.Errorf("%d lines, want %d and the next", len(got), c.whole)
			}
		})
	}
}

func TestClosedAndBroken(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "usage.jsonl"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(&Record{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}

	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs /dev/full to have a full disk: %v", err)
	}
	b := &File{file: full, done: make(chan struct{}), group: newGroup()}
	b.more.L = &b.mu
	go b.write()
	for range 2 { // it stays broken
		if err := b.Append(&Record{}); err == nil {
			t.Error("a full disk: no error")
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := OpenFile(filepath.Join(t.TempDir(), "none", "x")); err == nil {
		t.Error("a folder that is not there: no error")
	}
}

func BenchmarkAppend(b *testing.B) {
	f, _, err := OpenFile(filepath.Join(b.TempDir(), "usage.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := &Record{AttemptID: "0190", Frame: make([]byte, 512)}
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := f.Append(r); err != nil {
				b.Error(err)
			}
		}
	})
}
