package host

import (
	"math"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// defaultCompletionTokens is OpenAI's default of max_tokens for completions.
const defaultCompletionTokens = 16

// completions serves POST /v1/completions.
func (s *Server) completions(c *fiber.Ctx) error {
	arrival := s.parts.Engine.Now()
	q, err := openai.DecodeCompletion(c.Request().Body())
	if err != nil {
		return err
	}
	if err := s.serves(q.Model); err != nil {
		return err
	}
	prompts, err := s.completionPrompts(q)
	if err != nil {
		return err
	}
	e := &echo{on: q.Echo, hidden: q.Echo && q.MaxTokens.Set && q.MaxTokens.Value == 0}
	switch {
	case e.hidden:
		q.MaxTokens.Value = 1 // computed, counted, and not shown
	case !q.MaxTokens.Set:
		q.MaxTokens = openai.Some(s.fitting(defaultCompletionTokens, prompts))
	}
	r, err := s.start(c, openai.Completions, &q.Generation, prompts, arrival, func(r *engine.Request) {
		r.PromptLogprobs = q.Echo && q.Logprobs.Set
	})
	if err != nil {
		return err
	}
	e.run = r
	id, created := "cmpl-"+r.requestID, now()
	if q.Stream {
		o := r.opening(id, created)
		return s.sendStream(c, r, &completionEvents{run: r, echo: e, stream: openai.NewCompletionStream(o), gate: o.Gate})
	}
	defer r.close(c.UserContext())
	done, err := r.complete(e)
	if err != nil {
		return err
	}
	done.ID, done.Created = id, created
	return r.send(c, func(members, usage []byte) []byte {
		done.Extra, done.Usage.Extra = members, usage
		return openai.AppendCompletion(nil, done)
	})
}

// fitting is n, or what the context leaves to the longest prompt.
func (s *Server) fitting(n int, prompts [][]int32) int {
	for _, p := range prompts {
		n = max(min(n, s.parts.Engine.Context()-len(p)), 1)
	}
	return n
}

// completionPrompts tokenizes what is text. A completion's prompt is the
// client's own: control tokens are recognized in it, as vLLM does.
func (s *Server) completionPrompts(q *openai.CompletionRequest) ([][]int32, error) {
	t := s.parts.Engine.Tokenizer()
	prompts := make([][]int32, len(q.Prompts))
	for i, p := range q.Prompts {
		if p.Tokens == nil {
			prompts[i] = s.encodePrompt(p.Text, q.AddSpecialTokens.Or(true))
			continue
		}
		prompts[i] = make([]int32, len(p.Tokens))
		for j, id := range p.Tokens {
			if id >= t.Size() {
				return nil, openai.InvalidRequest("prompt", outOfVocabulary(id, t.Size()))
			}
			prompts[i][j] = int32(id)
		}
	}
	return prompts, nil
}

// encodePrompt tokenizes a completion's text, with the tokens that the model's
// tokenizer adds by itself.
func (s *Server) encodePrompt(text string, addSpecial bool) []int32 {
	t := s.parts.Engine.Tokenizer()
	var ids []int32
	if bos, ok := t.BOS(); ok && addSpecial && t.AddBOS() {
		ids = append(ids, bos)
	}
	return t.Encode(ids, text, tokenizer.Parsed)
}

// echo begins each choice with its prompt, where the request asks for it.
type echo struct {
	run *run
	on  bool
	// hidden leaves out the one token of a request for none.
	hidden bool
}

// begin is what a choice begins with: the prompt's text, and its tokens' log
// probabilities where they were asked for.
func (e *echo) begin(index int, scored []sample.Token) (string, []openai.TokenLogprob) {
	if e == nil || !e.on {
		return "", nil
	}
	t := e.run.server.parts.Engine.Tokenizer()
	d := tokenizer.NewDecoder(t)
	d.Whole = true
	var text []byte
	for _, id := range e.run.request.Prompts[index/e.run.request.N] {
		text = d.AppendPush(text, id)
	}
	text = append(text, d.Flush()...)
	logprobs := e.run.logprobs(nil, scored)
	if len(logprobs) > 0 {
		logprobs[0].Unknown = math.IsNaN(float64(scored[0].Logprob))
	}
	return string(text), logprobs
}

// completionEvents writes the chunks of a text completion.
type completionEvents struct {
	run    *run
	echo   *echo
	stream *openai.Stream
	gate   openai.UsageGate
}

func (e *completionEvents) open(dst []byte) []byte { return dst }

func (e *completionEvents) output(dst []byte, o *engine.Output) []byte {
	return e.run.chunk(dst, e.stream, e.gate, e.echo, o)
}

func (e *completionEvents) final() bool { return e.gate.Final }

func (e *completionEvents) close(dst []byte, shaped plugin.Shaped) []byte {
	return e.run.closeChunks(dst, e.stream, e.gate, shaped)
}

func (e *completionEvents) fail(dst []byte, err *openai.Error) []byte {
	return openai.AppendDone(openai.AppendErrorEvent(dst, err))
}
