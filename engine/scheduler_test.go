package engine

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/kvcache"
)

var update = flag.Bool("update", false, "rewrite the expected results of the scripts; read the diff")

// TestScheduler runs the scripts of testdata/scheduler: blocks of a command,
// "----" and its printed result. Commands:
//
//	pool blocks=N size=N budget=N seqs=N    an empty scheduler
//	cache                                   the pool caches prefixes
//	add NAME prompt=N [begin=N] [root=N] [priority=N]
//	                                        a sequence joins the queue; its prompt
//	                                        is begin tokens like others', and then
//	                                        its own
//	step                                    schedule; rows are computed, and a
//	                                        sequence that caught up grows by one
//	end NAME                                a sequence ends or leaves
func TestScheduler(t *testing.T) {
	files, err := filepath.Glob("testdata/scheduler/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in testdata/scheduler: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(want))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		})
	}
}

// script is the state of a scheduler script.
type script struct {
	scheduler
	named map[string]*sequence
	names map[*sequence]string
	// arrivals counts the sequences that were added.
	arrivals uint64
}

func runScript(t *testing.T, in string) []byte {
	var out bytes.Buffer
	s := &script{named: map[string]*sequence{}, names: map[*sequence]string{}}
	for _, block := range strings.Split(strings.TrimSpace(in), "\n\n") {
		head, _, _ := strings.Cut(block, "\n----")
		lines := strings.Split(head, "\n")
		command := lines[len(lines)-1]
		if out.Len() > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s\n----\n%s", head, s.do(t, command))
	}
	return out.Bytes()
}

func (s *script) do(t *testing.T, command string) string {
	fields := strings.Fields(command)
	args := map[string]int{}
	for _, f := range fields[1:] {
		if name, value, ok := strings.Cut(f, "="); ok {
			n := 0
			fmt.Sscan(value, &n)
			args[name] = n
		}
	}
	switch fields[0] {
	case "pool":
		pool, err := kvcache.NewPool(args["blocks"], args["size"])
		if err != nil {
			t.Fatal(err)
		}
		s.scheduler = scheduler{pool: pool, budget: args["budget"], maxSeqs: args["seqs"]}
	case "cache":
		s.pool.CachePrefixes(s.pool.NumBlocks())
	case "add":
		q := &sequence{tokens: make([]int32, args["prompt"]), prompt: args["prompt"], root: kvcache.Root{byte(args["root"])}, priority: args["priority"]}
		s.arrivals++
		q.arrival = s.arrivals
		for i := args["begin"]; i < len(q.tokens); i++ {
			q.tokens[i] = int32(len(s.named) + 1)
		}
		s.named[fields[1]], s.names[q] = q, fields[1]
		s.waiting.add(q)
	case "end":
		s.remove(s.named[fields[1]])
		delete(s.named, fields[1])
	case "step":
		return s.step(t)
	default:
		t.Fatalf("unknown command %q", command)
	}
	return s.state(t)
}

func (s *script) step(t *testing.T) string {
	var b strings.Builder
	plan := s.schedule(
		func(q *sequence) { fmt.Fprintf(&b, "preempt %s\n", s.names[q]) },
		func(q *sequence) { fmt.Fprintf(&b, "admit %s\n", s.names[q]) },
	)
	for _, w := range plan {
		q := w.seq
		fmt.Fprintf(&b, "%s rows %d…%d", s.names[q], q.computed, q.computed+w.rows-1)
		caughtUp := w.rows == q.pending()
		q.computed += w.rows
		if caughtUp {
			q.tokens = append(q.tokens, 0)
			b.WriteString(" sample")
		}
		b.WriteByte('\n')
	}
	if len(plan) == 0 {
		b.WriteString("nothing to compute\n")
	}
	return b.String() + s.state(t)
}

func (s *script) state(t *testing.T) string {
	tables := []*kvcache.Table{}
	var running, waiting []string
	for _, q := range s.running {
		running = append(running, fmt.Sprintf("%s(%d/%d)", s.names[q], q.computed, len(q.tokens)))
		tables = append(tables, &q.table)
	}
	for q := s.waiting.first; q != nil; q = q.next {
		waiting = append(waiting, s.names[q])
	}
	if len(waiting) != s.waiting.len {
		t.Errorf("queue says %d wait, and %d do", s.waiting.len, len(waiting))
	}
	if err := s.pool.Check(tables...); err != nil {
		t.Error(err)
	}
	cached := ""
	if n := s.pool.NumCached(); n > 0 {
		cached = fmt.Sprintf(" cached %d", n)
	}
	return fmt.Sprintf("running %v waiting %v free %d%s\n", running, waiting, s.pool.NumFree(), cached)
}

// TestPreemption gives a cache too small for all: everyone must get the same
// text as alone, and the account of recomputation must hold.
func TestPreemption(t *testing.T) {
	for name, caching := range map[string]bool{"computed again": false, "from the prefix cache": true} {
		t.Run(name, func(t *testing.T) { preempt(t, caching) })
	}
}

func preempt(t *testing.T, caching bool) {
	preemptions := 0
	m := newToy()
	m.gate = make(chan struct{})
	e := newEngine(t, m, func(o *Options) {
		o.BlockSize, o.KVCacheMemory = 8, 64 // the toy's position takes one byte: 64 positions
		o.PrefixCaching = caching
		o.Listener.Step = func(s Step) { preemptions += s.Preemptions }
	})
	var streams []*Stream
	for range 6 {
		r := ask("abcd")
		r.MaxTokens = 20
		streams = append(streams, submit(t, e, r))
	}
	close(m.gate)
	recomputed, preempted := 0, 0
	for i, s := range streams {
		a := collect(t, s)[0]
		if a.text != "efghijklmnopqrstuvwx" {
			t.Errorf("sequence %d: %q", i, a.text)
		}
		recomputed += a.last.Life.RecomputedTokens
		preempted += a.last.Life.Preemptions
	}
	e.Close()
	if preempted == 0 || preempted != preemptions {
		t.Errorf("%d preemptions in the sequences' lives, %d in the steps; want some, and equal", preempted, preemptions)
	}
	// All say the same, so that there is always one whose blocks are held: what is
	// computed again is less than a block.
	if caching && recomputed > 7*preempted || !caching && recomputed < 8*preempted {
		t.Errorf("%d rows are computed again after %d preemptions, with a cache: %v", recomputed, preempted, caching)
	}
}
