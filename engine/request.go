package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/sample"
)

// Request is what a client asked: one or more prompts, each continued N times.
// It is not changed after Submit.
//
// Each continuation is a choice and runs as a sequence of its own. Choice
// p*N+i is the i-th continuation of prompt p, which is the order of OpenAI's
// `index`.
type Request struct {
	// ID names the request in logs and events.
	ID string
	// Prompts holds token ids; none of the prompts is empty.
	Prompts [][]int32
	// N is the number of continuations of each prompt, at least 1.
	N int
	// Sampling says how tokens are drawn.
	Sampling sample.Params
	// MaxTokens bounds the tokens of one choice; 0 means as many as the context
	// holds. A bound beyond the context is cut to it.
	MaxTokens int
	// MinTokens forbids the end before so many tokens.
	MinTokens int
	// Stop ends a choice at the first of these strings, which is not part of its
	// text unless IncludeStop. No string is empty.
	Stop []string
	// StopTokens ends a choice at one of these token ids.
	StopTokens []int32
	// IncludeStop keeps the stop string, or the text of the stop token, in the
	// text.
	IncludeStop bool
	// IgnoreEOS goes on after the model's end tokens.
	IgnoreEOS bool
	// PromptLogprobs asks for the log probabilities of the prompt's tokens too.
	// Sampling.Logprobs must not be negative.
	PromptLogprobs bool
	// Whole says that the reader wants everything at once: it is woken when the
	// last choice has ended, and not for each step.
	Whole bool
	// MaxBacklog bounds the outputs that may wait for a reader who does not
	// receive; more end the request with ErrSlowReader. 0 is no bound.
	MaxBacklog int
	// Priority ranks the request where Options.SchedulingPolicy is PolicyPriority:
	// the lower one first.
	Priority int
	// Deadline is the reading of Engine.Now at which the request is aborted with
	// ErrDeadline, whether it waits or runs; 0 is none.
	Deadline time.Duration
	// Arrival is the reading of Engine.Now when the request came in.
	Arrival time.Duration
	// CacheRoot names those with whom the request shares the keys and values of
	// equal beginnings: requests with the same root, and no others.
	CacheRoot [32]byte
	// Events asks for a record of each event of the request's sequences, DraftSteps
	// for DraftCounts.PerStep.
	Events, DraftSteps bool
}

// choices is the number of sequences that the request runs as.
func (r *Request) choices() int { return len(r.Prompts) * r.N }

// promptTokens is the number of prompt tokens of all sequences together.
func (r *Request) promptTokens() int {
	n := 0
	for _, p := range r.Prompts {
		n += len(p)
	}
	return n * r.N
}

// MaxChoices bounds the sequences of one request.
const MaxChoices = 1024

// validate refuses what no state of the engine could run.
func (r *Request) validate(vocab, context int) error {
	switch {
	case len(r.Prompts) == 0:
		return errors.New("request has no prompt")
	case r.N < 1:
		return fmt.Errorf("n: %d is not at least 1", r.N)
	case len(r.Prompts) > MaxChoices/r.N:
		return fmt.Errorf("n: %d choices of %d prompts are more than %d in one request", r.N, len(r.Prompts), MaxChoices)
	case r.MaxTokens < 0 || r.MinTokens < 0:
		return fmt.Errorf("max_tokens %d or min_tokens %d is negative", r.MaxTokens, r.MinTokens)
	}
	for i, p := range r.Prompts {
		if len(p) == 0 {
			return fmt.Errorf("prompt %d is empty", i)
		}
		if len(p) >= context {
			return &TooLongError{PromptTokens: len(p), Context: context}
		}
		for _, id := range p {
			if id < 0 || int(id) >= vocab {
				return fmt.Errorf("prompt %d: token %d is not in the vocabulary of %d tokens", i, id, vocab)
			}
		}
	}
	for _, s := range r.Stop {
		if s == "" {
			return errors.New("stop: a stop string is empty")
		}
	}
	if r.PromptLogprobs && r.Sampling.Logprobs < 0 {
		return errors.New("log probabilities of the prompt are asked for, and logprobs is off")
	}
	return r.Sampling.Validate(vocab)
}

// FinishReason says why a choice ended; None while it runs.
type FinishReason uint8

const (
	// None: the choice still runs.
	None FinishReason = iota
	// Stop: an end token, a stop token or a stop string.
	Stop
	// Length: MaxTokens, or the end of the context.
	Length
	// Abort: the reader asked for the end.
	Abort
	// Failed: the device could not compute the step.
	Failed
)

var finishNames = [...]string{"", "stop", "length", "abort", "error"}

// String is the word that vLLM's metrics use: stop, length, abort, error.
func (f FinishReason) String() string { return finishNames[f] }

// Sentinels for what callers decide on.
var (
	// ErrClosed: the engine no longer takes requests.
	ErrClosed = errors.New("engine is closed")
	// ErrLost: the device is lost, and the engine computes nothing more.
	ErrLost = backend.ErrLost
	// ErrQueueFull matches every QueueFullError.
	ErrQueueFull = errors.New("queue is full")
	// ErrSlowReader is Output.Err where a choice was aborted because its reader
	// did not receive.
	ErrSlowReader = errors.New("the reader is too slow: its backlog is full")
	// ErrDeadline is Output.Err where a choice was aborted because its request's
	// deadline had passed.
	ErrDeadline = errors.New("the request's deadline has passed")
	// ErrTooLong matches every TooLongError.
	ErrTooLong = errors.New("prompt is too long")
)

// QueueFullError says which bound of the waiting queue a request would break.
type QueueFullError struct {
	// Unit is "requests" or "prompt tokens".
	Unit string
	// Queued is what waits, Asked what the request would add, Max the bound.
	Queued, Asked, Max int
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("queue is full: %d %s wait, this request adds %d, and at most %d may wait; try again later",
		e.Queued, e.Unit, e.Asked, e.Max)
}

// Is makes errors.Is(err, ErrQueueFull) true.
func (e *QueueFullError) Is(target error) bool { return target == ErrQueueFull }

// TooLongError says that a prompt leaves no room for a token.
type TooLongError struct {
	PromptTokens int
	// Context is the longest sequence the engine runs, prompt and output.
	Context int
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("prompt has %d tokens, and the context holds %d for prompt and output together; shorten the prompt",
		e.PromptTokens, e.Context)
}

// Is makes errors.Is(err, ErrTooLong) true.
func (e *TooLongError) Is(target error) bool { return target == ErrTooLong }
