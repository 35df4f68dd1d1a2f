package engine_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/backend/sim"
	"github.com/wasmeter/wasmeter/engine/gguf"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// clocked tells how long the model computes.
type clocked struct {
	model.Model
	spent time.Duration // owned by the loop
}

func (m *clocked) Forward(b *backend.Batch) ([]float32, error) {
	begun := time.Now()
	defer func() { m.spent += time.Since(begun) }()
	return m.Model.Forward(b)
}

func (m *clocked) Threads() int {
	if s, ok := m.Model.(model.Sharer); ok {
		return s.Threads()
	}
	return 1
}

func (m *clocked) Share(parts int, do func(part, thread int)) {
	m.Model.(model.Sharer).Share(parts, do)
}

// BenchmarkOwnCost decodes 64 sequences and tells what the loop does beside the
// model: per step, and as a share of it. A simulated device computes nothing, so
// that its share says nothing.
func BenchmarkOwnCost(b *testing.B) {
	for name, open := range map[string]func(*testing.B) (model.Model, *tokenizer.Tokenizer){"sim": openSim, "SmolLM2": openSmol} {
		b.Run(name, func(b *testing.B) {
			for name, change := range map[string]func(*sample.Params){
				"greedy":      func(p *sample.Params) { p.Temperature = 0 },
				"temperature": func(p *sample.Params) { p.Temperature = 0.8 },
				"top-k top-p": func(p *sample.Params) { p.Temperature, p.TopK, p.TopP = 0.8, 40, 0.95 },
				"top-p":       func(p *sample.Params) { p.Temperature, p.TopP = 0.8, 0.95 },
			} {
				b.Run(name, func(b *testing.B) {
					m, tok := open(b)
					ownCost(b, m, tok, change)
				})
			}
		})
	}
}

func ownCost(b *testing.B, m model.Model, tok *tokenizer.Tokenizer, change func(*sample.Params)) {
	const sequences = 64
	device := &clocked{Model: m}
	steps, run := 0, make(chan struct{})
	var first, last, computed time.Duration
	o := engine.Default()
	o.Listener.Step = func(s engine.Step) {
		if s.Running < sequences {
			return
		}
		if steps == 0 { // the first one of all is not counted
			first, device.spent = s.End, 0
		}
		if steps == b.N {
			last, computed = s.End, device.spent
			close(run)
		}
		steps++
	}
	e, err := engine.New(device, tok, o)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	r := &engine.Request{N: 1, Sampling: sample.Defaults(), IgnoreEOS: true, Whole: true}
	change(&r.Sampling)
	for range sequences {
		prompt := make([]int32, 2)
		for i := range prompt {
			prompt[i] = rnd.Int32N(int32(tok.Size()))
		}
		r.Prompts = append(r.Prompts, prompt)
	}
	if b.N > e.Context()-4 {
		b.Skip("more steps than a sequence has tokens; use -benchtime=100x")
	}
	s, err := e.Submit(r)
	if err != nil {
		b.Fatal(err)
	}
	<-run
	s.Abort()
	own := last - first - computed
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(own.Microseconds())/float64(b.N), "own-µs/step")
	b.ReportMetric(100*own.Seconds()/(last-first).Seconds(), "own-%")
}

func openSim(b *testing.B) (model.Model, *tokenizer.Tokenizer) {
	tok := tokenizer.Bytes()
	eos, _ := tok.EOS()
	m, err := sim.New(sim.Options{Vocab: tok.Size(), EOS: eos, Sleep: func(time.Duration) {}})
	if err != nil {
		b.Fatal(err)
	}
	return m, tok
}

func openSmol(b *testing.B) (model.Model, *tokenizer.Tokenizer) {
	path := filepath.Join("..", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(path); err != nil {
		b.Skipf("needs the model file: run `make model` (%v)", err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		b.Fatal(err)
	}
	device, err := cpu.New(cpu.Options{})
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.Load(f, device)
	if err != nil {
		b.Fatal(err)
	}
	return m, tok
}
