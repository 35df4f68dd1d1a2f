package host

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/ledger"
)

// book is a ledger that keeps records in memory.
type book struct {
	mu      sync.Mutex
	records []*ledger.Record
	fail    error
}

func (b *book) Append(r *ledger.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	b.records = append(b.records, r)
	return nil
}

func (b *book) Close() error { return nil }

func (b *book) all() []*ledger.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.records)
}

// TestOneRecordForEveryEnd: each accepted request has one record with the right
// outcome and counts, and the answer is not there before it.
func TestOneRecordForEveryEnd(t *testing.T) {
	kept := &book{}
	f := serve(t, func(u *setup) {
		u.ledger = kept
		u.sim.StepBase = time.Millisecond
		u.engine.MaxNumSeqs, u.engine.MaxQueuedRequests = 2, 2
		u.options.Server.ShutdownTimeout = 50 * time.Millisecond
	})
	want := map[string]int{}
	expect := func(what, outcome string, status, tokens int) {
		t.Helper()
		want[outcome]++
		until(t, what+" is recorded", func() bool { return len(kept.all()) >= sum(want) })
		r := kept.all()[sum(want)-1]
		if r.Outcome != outcome || tokens >= 0 && r.CompletionTokens != tokens {
			t.Errorf("%s: outcome %s with %d tokens, want %s with %d", what, r.Outcome, r.CompletionTokens, outcome, tokens)
		}
		// ABI.md, offset 20 is http_status.
		if said := binary.LittleEndian.Uint16(r.Frame[20:]); int(said) != status {
			t.Errorf("%s: the frame says status %d, want %d", what, said, status)
		}
	}
	answered := func(what, outcome string, status, tokens int) { // the record came first
		t.Helper()
		if len(kept.all()) != sum(want)+1 {
			t.Errorf("%s: answered with %d records, want %d", what, len(kept.all()), sum(want)+1)
		}
		expect(what, outcome, status, tokens)
	}

	f.chat(`"max_tokens":3`)
	answered("plain", "length", 200, 3)
	chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":4,"stream":true`)))
	answered("streamed", "length", 200, 4)
	f.chat(`"max_tokens":50,"stop":"e"`)
	answered("stopped", "stop", 200, -1)
	f.post("/v1/responses", `{"model":"sim","input":"fox","max_output_tokens":5}`)
	answered("responses", "length", 200, 5)
	f.post("/v1/completions", completionBody(`"prompt":["a","b"],"max_tokens":2`))
	answered("two prompts", "length", 200, 4)

	if r := f.do("POST", "/v1/completions", completionBody(`"prompt":["a","b","c"],"max_tokens":2`)); r.status != 429 {
		t.Fatalf("three sequences with room for two: %d %s", r.status, r.body)
	}
	answered("refused by the queue", "rejected", 429, 0)
	f.do("POST", "/v1/chat/completions", chatBody(`"n":0`)) // never accepted: no record

	// A stream's status has left when its client does.
	for stream, status := range map[string]int{"": 499, `,"stream":true`: 200} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := chatBody(`"max_tokens":4000,"ignore_eos":true` + stream)
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		until(t, "it runs", func() bool { return f.engine.Stats().Running == 1 })
		if stream != "" {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		expect("left"+stream, "client_abort", status, -1)
		if r := kept.all()[sum(want)-1]; r.RequestID != "gone" || r.CompletionTokens >= 4000 {
			t.Errorf("left%s: %+v", stream, r)
		}
	}

	done := make(chan reply, 1)
	go func() {
		done <- f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":4000,"ignore_eos":true,"stream":true`))
	}()
	until(t, "it runs", func() bool { return f.engine.Stats().Running == 1 })
	f.stop()
	<-done
	expect("shut down", "shutdown", 200, -1)

	ids := map[string]bool{}
	for _, r := range kept.all() {
		ids[r.AttemptID] = true
		if r.Drafts != nil {
			t.Errorf("%s: drafts %+v without speculation", r.Outcome, r.Drafts)
		}
		// The frame says the same: ABI.md, offset 36 is completion_tokens.
		if n := binary.LittleEndian.Uint32(r.Frame[36:]); int(n) != r.CompletionTokens {
			t.Errorf("%s: the frame counts %d tokens, the record %d", r.Outcome, n, r.CompletionTokens)
		}
	}
	if len(ids) != sum(want) || len(kept.all()) != sum(want) {
		t.Errorf("%d records with %d ids, want %d", len(kept.all()), len(ids), sum(want))
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestLedgerFails: what cannot be kept is told to the operator, and the answer
// goes out.
func TestLedgerFails(t *testing.T) {
	f := serve(t, func(u *setup) { u.ledger = &book{fail: http.ErrServerClosed} })
	f.chat(`"max_tokens":3`)
}
