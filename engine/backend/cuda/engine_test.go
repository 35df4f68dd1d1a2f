//go:build cuda && cgo && linux

package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// tinyTokens is the tokenizer of the tiny models.
func tinyTokens(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	names := make([]string, 101)
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
	}
	tok, err := tokenizer.New(tokenizer.Vocab{Model: "gpt2", Pre: "gpt2", Tokens: names, Types: slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(names)), BOS: tokenizer.None, EOS: tokenizer.None})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// held is a model whose first step waits until it is opened: all requests are there when
// the second begins, so that the steps are the same each time.
type held struct {
	model.Model
	begun, open chan struct{}
	once        sync.Once
}

func (h *held) hold() {
	h.once.Do(func() { close(h.begun); <-h.open })
}

func (h *held) Forward(b *backend.Batch) ([]float32, error) {
	h.hold()
	return h.Model.Forward(b)
}

// heldDrawer is a held model.Drawer, which counts the steps that are queued while others
// are under way.
type heldDrawer struct {
	*held
	model.Drawer
	flying, ahead int // owned by the loop
}

func (h *heldDrawer) Queue(b *backend.Batch) error {
	h.hold()
	if h.flying > 0 {
		h.ahead++
	}
	h.flying++
	return h.Drawer.Queue(b)
}

func (h *heldDrawer) Wait() ([]sample.Token, error) {
	h.flying--
	return h.Drawer.Wait()
}

// requestsOfAllKinds differ in what drawing and ending depend on.
func requestsOfAllKinds() []*engine.Request {
	rnd := rand.New(rand.NewPCG(3, 3))
	var all []*engine.Request
	for i, change := range []func(*engine.Request){
		func(r *engine.Request) { r.Sampling.Temperature = 0 },
		func(*engine.Request) {},
		func(r *engine.Request) { r.Sampling.TopK, r.Sampling.TopP = 9, 0.8 },
		func(r *engine.Request) { r.Sampling.MinP = 0.1 },
		func(r *engine.Request) { r.Sampling.RepetitionPenalty, r.Sampling.FrequencyPenalty = 1.3, 0.4 },
		func(r *engine.Request) { r.Sampling.Temperature, r.Sampling.PresencePenalty = 0, 1.5 },
		func(r *engine.Request) { r.Sampling.Logprobs = 3 },
		func(r *engine.Request) { r.Sampling.Bias = map[int32]float32{5: 4, 6: -100} },
		func(r *engine.Request) { r.MinTokens, r.StopTokens = 6, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9} },
		func(r *engine.Request) { r.Stop = []string{"1", "22"} },
		func(r *engine.Request) { r.N, r.MaxTokens = 3, 5 },
		func(r *engine.Request) { r.MaxTokens = 1 },
		func(r *engine.Request) { r.PromptLogprobs, r.Sampling.Logprobs = true, 0 },
	} {
		p := sample.Defaults()
		p.Seed = uint64(i)
		prompt := make([]int32, 3+3*i)
		for j := range prompt {
			prompt[j] = rnd.Int32N(101)
		}
		r := &engine.Request{Prompts: [][]int32{prompt}, N: 1, Sampling: p, MaxTokens: 12}
		change(r)
		all = append(all, r)
	}
	return all
}

// foreseeable are the requests of whose tokens the next step need not know which they
// are.
func foreseeable(requests []*engine.Request) []*engine.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r *engine.Request) bool {
		p := &r.Sampling
		return p.RepetitionPenalty != 1 || p.PresencePenalty != 0 || r.MinTokens > 0 || r.PromptLogprobs
	})
}

// answer is what a reader sees of a choice.
type answer struct {
	tokens []sample.Token
	text   string
	end    string
}

// serve runs requests on a tiny model of float32, whose tokens the device draws unless
// onHost. ahead is the number of steps that were queued while others were under way.
func serve(t *testing.T, onHost bool, change func(*engine.Options), requests []*engine.Request) (answers [][]answer, preemptions, ahead int) {
	t.Helper()
	m, err := model.Load(tinyFile(t, "llama"), openWith(t, cuda.Options{MaxRows: 64}))
	if err != nil {
		t.Fatal(err)
	}
	h := &held{Model: m, begun: make(chan struct{}), open: make(chan struct{})}
	drawer := &heldDrawer{held: h, Drawer: m.(model.Drawer)}
	var device model.Model = h
	if !onHost {
		device = drawer
	}
	o := engine.Default()
	o.MaxNumBatchedTokens, o.KVCacheMemory = 64, 8<<20
	if change != nil {
		change(&o)
	}
	e, err := engine.New(device, tinyTokens(t), o)
	if err != nil {
		t.Fatal(err)
	}
	first := *requests[0]
	first.MaxTokens = 1
	var streams []*engine.Stream
	for _, r := range append([]*engine.Request{&first}, requests...) {
		s, err := e.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
		<-h.begun
	}
	close(h.open)
	for i, s := range streams {
		choices := make([]answer, max(1, requests[max(i-1, 0)].N))
		var d engine.Delivery
		for s.Receive(&d, nil) == nil {
			for _, o := range d.Outputs {
				c := &choices[o.Choice]
				c.tokens, c.text = append(c.tokens, o.Tokens...), c.text+string(o.Text)
				if o.Finish != engine.None {
					c.end = fmt.Sprintf("%v %q %d after %d", o.Finish, o.StopString, o.StopToken, o.Life.CompletionTokens)
					preemptions += o.Life.Preemptions
				}
			}
		}
		answers = append(answers, choices)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return answers[1:], preemptions, drawer.ahead
}

// sameAnswers compares tokens to the bit, and log probabilities as near as those of steps
// of different shapes are: the attention of prompts rounds queries to float16.
func sameAnswers(t *testing.T, got, want [][]answer) {
	t.Helper()
	for i := range want {
		for j, w := range want[i] {
			g := got[i][j]
			same := len(g.tokens) == len(w.tokens) && g.text == w.text && g.end == w.end
			for k := 0; same && k < len(w.tokens); k++ {
				a, b := g.tokens[k], w.tokens[k]
				same = a.ID == b.ID && math.Abs(float64(a.Logprob-b.Logprob)) < 5e-3 && len(a.Top) == len(b.Top)
			}
			if !same {
				t.Errorf("request %d, choice %d: %v %q %s, want %v %q %s", i, j, g.tokens, g.text, g.end, w.tokens, w.text, w.end)
			}
		}
	}
}

// TestEngine: readers see the same whoever draws, and however the steps are cut.
func TestEngine(t *testing.T) {
	emulator(t, "")
	requests := requestsOfAllKinds()
	alone := func(o *engine.Options) { o.MaxNumSeqs = 1 }
	want, _, _ := serve(t, true, alone, requests)
	squeeze := func(o *engine.Options) { o.BlockSize, o.MaxModelLen, o.KVCacheMemory = 8, 56, 512*8*14 }
	for _, c := range []struct {
		name   string
		onHost bool
		change func(*engine.Options)
	}{
		{"drawn on the host", true, nil},
		{"drawn on the device", false, nil},
		{"alone", false, alone},
		{"few at once", false, func(o *engine.Options) { o.MaxNumSeqs = 4 }},
		{"preempted", false, squeeze},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, preemptions, _ := serve(t, c.onHost, c.change, requests)
			sameAnswers(t, got, want)
			if c.name == "preempted" && preemptions == 0 {
				t.Error("nothing was preempted")
			}
		})
	}
}

// TestEngineAhead: readers see the same while each step is queued behind the one that the
// device computes.
func TestEngineAhead(t *testing.T) {
	emulator(t, "")
	requests := foreseeable(requestsOfAllKinds())
	want, _, _ := serve(t, true, nil, requests)
	for name, n := range map[string]int{"batched": 64, "few at once": 3} {
		got, _, ahead := serve(t, false, func(o *engine.Options) { o.MaxNumSeqs = n }, requests)
		sameAnswers(t, got, want)
		if ahead < 8 {
			t.Errorf("%s: %d steps were queued ahead, want most of them", name, ahead)
		}
	}
}
