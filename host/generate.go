package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// run is one request in flight: what the three generating endpoints share.
type run struct {
	server     *Server
	endpoint   openai.Endpoint
	generation *openai.Generation
	request    *engine.Request
	stream     *engine.Stream
	watch      *watch
	// deadlineMS is the deadline that plugins have set, since arrival; 0: none.
	deadlineMS uint32

	// chain is the plugins that the request keeps to its end.
	chain *plugin.Chain
	// set is held until the account is closed, so that a reload of the plugins
	// leaves the request its own.
	set *plugin.Set
	// attemptID is unique for ever.
	attemptID string
	// requestID is the x-request-id, clientRequestID the client's own or empty.
	requestID, clientRequestID string
	owner                      keys.Owner
	// arrived is the wall clock at arrival, for what is told to people and
	// ledgers; intervals come from the engine's clock.
	arrived time.Time
	targets targets
	// cause says who ended the run early; the first one wins.
	cause atomic.Int32

	// What follows is owned by the goroutine that answers.
	delivery engine.Delivery
	choices  []choice
	plugins  plugin.State
	// end is the outcome where no choice tells it: the request was refused, for
	// the reason in refused.
	end     plugin.Outcome
	refused error
	// streaming: the status has left, and it was 200.
	streaming bool
	// settled says that the account is closed.
	settled bool
}

// choice is what has come of one choice.
type choice struct {
	// shown counts the tokens of the outputs written so far; the exact count of
	// all is in life, once there is an end.
	shown      int
	finish     engine.FinishReason
	stopString string
	err        error
	life       engine.Life
	events     []engine.Event
}

// cause says who ended a run before its time.
type cause int32

const (
	causeNone cause = iota
	causeClientGone
	causeShutdown
)

// maxBacklog bounds the outputs that wait for a client who does not read: about
// 256 KiB of events, beyond what the sockets hold.
const maxBacklog = 1024

// start submits a request and watches its client. change, if not nil, makes the
// endpoint's own changes to the engine's request. The caller ends the run with
// close, in whatever way it goes on.
func (s *Server) start(c *fiber.Ctx, endpoint openai.Endpoint, g *openai.Generation, prompts [][]int32, arrival time.Duration, change func(*engine.Request)) (*run, error) {
	request, err := s.engineRequest(g, prompts, arrival)
	if err != nil {
		return nil, err
	}
	targets, err := targetsOf(c)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(request)
	}
	owner, set := ownerOf(c), s.parts.Plugins.Acquire()
	request.CacheRoot = s.cacheRoot(owner.Tenant, g.CacheSalt)
	kept := *g // and not the whole decoded body, which it points into
	r := &run{
		server:     s,
		set:        set,
		chain:      set.Chain(g.Model, owner.Tenant, plugin.Endpoint(endpoint)),
		endpoint:   endpoint,
		generation: &kept,
		request:    request,
		attemptID:  newAttempt(),
		requestID:  string(c.Response().Header.Peek(fiber.HeaderXRequestID)),
		arrived:    time.Now(),
		owner:      owner,
		targets:    targets,
		choices:    make([]choice, len(prompts)*request.N),
	}
	if c.Get(fiber.HeaderXRequestID) == r.requestID {
		r.clientRequestID = r.requestID
	}
	request.ID, request.Events = r.requestID, r.chain.WantsEvents()
	request.DraftSteps = s.options.Metrics.SpecDecode == "detailed"
	if err := r.admit(c); err != nil {
		r.refused = err
		r.settle(c.UserContext())
		return nil, err
	}
	if r.stream, err = s.parts.Engine.Submit(request); err != nil {
		var full *engine.QueueFullError
		if told := s.parts.Observe.Rejected; told != nil && errors.As(err, &full) {
			told(full)
		}
		r.end, r.refused = plugin.OutcomeRejected, err
		r.settle(c.UserContext())
		return nil, err
	}
	s.mu.Lock()
	s.runs[r] = struct{}{}
	s.mu.Unlock()
	r.watch = s.watcher.add(c.Context().Conn(), func() { r.abort(causeClientGone) })
	return r, nil
}

// engineRequest turns the API's words into the engine's, with the defaults that
// the API documents.
func (s *Server) engineRequest(g *openai.Generation, prompts [][]int32, arrival time.Duration) (*engine.Request, error) {
	context := s.parts.Engine.Context()
	if g.MaxTokens.Set {
		for _, p := range prompts {
			if len(p) < context && len(p)+g.MaxTokens.Value > context {
				return nil, openai.ContextLengthExceeded(g.MaxTokensParam, fmt.Sprintf(
					"%s: %d tokens and a prompt of %d do not fit into the context of %d; ask for at most %d",
					g.MaxTokensParam, g.MaxTokens.Value, len(p), context, context-len(p)))
			}
		}
	}
	if g.Priority != 0 && !s.parts.Engine.Ranks() {
		return nil, openai.InvalidRequest("priority", fmt.Sprintf(
			"priority %d: this server takes requests in the order in which they come; leave it out, or start the server with --scheduling-policy priority", g.Priority))
	}
	p := sample.Defaults()
	p.Temperature = float32(g.Temperature.Or(1))
	p.TopP = float32(g.TopP.Or(1))
	p.MinP = float32(g.MinP.Or(0))
	p.TopK = max(g.TopK.Or(0), 0)
	p.PresencePenalty = float32(g.PresencePenalty.Or(0))
	p.FrequencyPenalty = float32(g.FrequencyPenalty.Or(0))
	p.RepetitionPenalty = float32(g.RepetitionPenalty.Or(1))
	p.Logprobs = g.Logprobs.Or(-1)
	p.Seed = uint64(g.Seed.Value)
	if !g.Seed.Set {
		p.Seed = rand.Uint64()
	}
	vocab := s.parts.Engine.Shape().Vocab
	if len(g.LogitBias) > 0 {
		p.Bias = make(map[int32]float32, len(g.LogitBias))
	}
	for _, b := range g.LogitBias {
		if b.Token >= vocab {
			return nil, openai.InvalidRequest("logit_bias", outOfVocabulary(b.Token, vocab))
		}
		p.Bias[int32(b.Token)] = float32(b.Bias)
	}
	r := &engine.Request{
		Prompts:     prompts,
		N:           g.N,
		Sampling:    p,
		MaxTokens:   g.MaxTokens.Value,
		MinTokens:   g.MinTokens,
		Stop:        g.Stop,
		IncludeStop: g.IncludeStop,
		IgnoreEOS:   g.IgnoreEOS,
		Whole:       !g.Stream,
		Arrival:     arrival,
		Priority:    g.Priority,
	}
	if g.Stream {
		r.MaxBacklog = maxBacklog
	}
	for _, id := range g.StopTokenIDs {
		if id >= vocab {
			return nil, openai.InvalidRequest("stop_token_ids", outOfVocabulary(id, vocab))
		}
		r.StopTokens = append(r.StopTokens, int32(id))
	}
	return r, nil
}

func outOfVocabulary(id, vocab int) string {
	return fmt.Sprintf("token %d is not in the vocabulary of %d tokens", id, vocab)
}

// abort ends the run early, from any goroutine.
func (r *run) abort(why cause) {
	r.cause.CompareAndSwap(int32(causeNone), int32(why))
	r.stream.Abort()
}

// receive waits for outputs, keeps account of ends, and returns them all; they
// are valid until the next call. It returns io.EOF when every choice has ended, and
// engine.ErrTimeout when timeout fires first.
func (r *run) receive(timeout <-chan time.Time) ([]engine.Output, error) {
	if err := r.stream.Receive(&r.delivery, timeout); err != nil {
		return nil, err
	}
	for i := range r.delivery.Outputs {
		o := &r.delivery.Outputs[i]
		c := &r.choices[o.Choice]
		if o.Finish != engine.None {
			c.finish, c.stopString, c.err = o.Finish, o.StopString, o.Err
			c.life, c.events = o.Life, o.Events
		}
	}
	return r.delivery.Outputs, nil
}

// failure is why the run cannot be answered as asked, or nil.
func (r *run) failure() error {
	for i := range r.choices {
		switch c := &r.choices[i]; c.finish {
		case engine.Failed:
			return errors.Join(errStep, c.err)
		case engine.Abort:
			if cause(r.cause.Load()) == causeClientGone {
				return errGone
			}
			if errors.Is(c.err, engine.ErrDeadline) {
				return r.late()
			}
			if c.err != nil {
				return c.err // a slow reader
			}
			return errShuttingDown
		}
	}
	return nil
}

var (
	errStep = errors.New("a step of the engine was not computed")
	// errGone: nobody is left to answer.
	errGone = errors.New("the client has closed the connection")
)

// status is the HTTP status of the answer, as far as it is decided.
func (r *run) status() int {
	err := r.refused
	if err == nil {
		err = r.failure()
	}
	if err == nil || r.streaming {
		return fiber.StatusOK
	}
	return r.server.apiError(err, nil).Status
}

// drain ends what still runs and receives it, so that the counts are complete.
func (r *run) drain() {
	r.stream.Abort()
	for {
		if _, err := r.receive(nil); err == io.EOF {
			return
		}
	}
}

// close ends the run in whatever state it is, and its account. It may be called
// again.
func (r *run) close(ctx context.Context) {
	r.watch.stop()
	r.drain()
	r.settle(ctx)
	s := r.server
	s.mu.Lock()
	delete(s.runs, r)
	s.mu.Unlock()
	select {
	case s.ended <- struct{}{}:
	default: // told already
	}
}

// usage counts the run's tokens so far: a prompt counts once, however many
// choices continue it.
func (r *run) usage() openai.Usage {
	u := openai.Usage{Details: r.server.options.Metrics.PromptTokensDetails}
	for _, p := range r.request.Prompts {
		u.Prompt += len(p)
	}
	for i := range r.choices {
		c := &r.choices[i]
		if u.Completion += c.life.CompletionTokens; c.finish == engine.None {
			u.Completion += c.shown
		}
		if i%r.request.N == 0 {
			u.Cached += c.life.CachedTokens
		}
	}
	return u
}

// logprobs turns a step's tokens into the API's, or nil if the request did not
// ask. Control tokens have no text.
func (r *run) logprobs(dst []openai.TokenLogprob, tokens []sample.Token) []openai.TokenLogprob {
	if !r.generation.Logprobs.Set {
		return nil
	}
	for _, t := range tokens {
		l := openai.TokenLogprob{Text: r.server.tokenText(t.ID), Logprob: t.Logprob, Top: make([]openai.TopLogprob, len(t.Top))}
		for i, top := range t.Top {
			l.Top[i] = openai.TopLogprob{Text: r.server.tokenText(top.ID), Logprob: top.Value}
		}
		dst = append(dst, l)
	}
	return dst
}

// tokenText is the text of a token as users see it.
func (s *Server) tokenText(id int32) string {
	t := s.parts.Engine.Tokenizer()
	if t.Control(id) {
		return ""
	}
	return string(t.Piece(id))
}

// finishReason is the API's word for the end of a choice.
func finishReason(f engine.FinishReason) openai.FinishReason {
	switch f {
	case engine.Length:
		return openai.FinishLength
	case engine.Abort:
		return openai.FinishAbort
	}
	return openai.FinishStop
}
