package engine

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/wasmeter/wasmeter/engine/sample"
)

// Stream is the mailbox between the loop and the one reader of a request. The
// loop never waits for the reader: outputs gather until they are received, and
// their number is bounded by the request's own token limit.
type Stream struct {
	engine *Engine
	req    *Request
	// open counts the choices that still run; owned by the loop.
	open int

	// wake holds one token when there is something to receive.
	wake chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	pending Delivery
	ended   bool
}

// Output is what one step brought for one choice.
type Output struct {
	Choice int
	// Tokens were sampled, the one that ended the choice included.
	Tokens []sample.Token
	// Prompt holds the prompt's tokens with their log probabilities, where they
	// were asked for, in the choice's first output with tokens. The first token
	// has none: its Logprob is NaN.
	Prompt []sample.Token
	// Text is decided text: whole runes that cannot become part of a stop
	// string. It may be empty while tokens come.
	Text []byte
	// Finish says why the choice ended; None while it runs. It is set in the
	// last output of each choice, and once only.
	Finish FinishReason
	// End is set with Finish, and nil before.
	*End
}

// End is what there is to say when a choice has ended.
type End struct {
	// Err is the device's error when Finish is Failed, and ErrSlowReader or
	// ErrDeadline when that is why it is Abort.
	Err error
	// StopString is the stop string that ended the choice, if one did;
	// StopToken the stop token from the request, or −1.
	StopString string
	StopToken  int32
	// Life is complete.
	Life Life
	// Events are the choice's events, if the request asked for them.
	Events []Event
}

// Delivery is what one Receive brings. Its contents are valid until it is given
// to Receive again; the storage is reused.
type Delivery struct {
	Outputs []Output
	tokens  []sample.Token
	text    []byte
}

// reset empties the delivery and keeps its storage.
func (d *Delivery) reset() {
	clear(d.Outputs)
	clear(d.tokens)
	d.Outputs, d.tokens, d.text = d.Outputs[:0], d.tokens[:0], d.text[:0]
}

// ErrTimeout: nothing came before the reader's timeout.
var ErrTimeout = errors.New("no output before the timeout")

// Receive waits for outputs and puts all that are there into d. It returns
// io.EOF once every choice has ended and been received, and ErrTimeout if
// timeout, which may be nil, fires first. One goroutine receives; Abort ends its
// waiting.
func (s *Stream) Receive(d *Delivery, timeout <-chan time.Time) error {
	d.reset()
	for {
		s.mu.Lock()
		if len(s.pending.Outputs) > 0 && (s.ended || !s.req.Whole) {
			*d, s.pending = s.pending, *d
			s.mu.Unlock()
			return nil
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return io.EOF
		}
		select {
		case <-s.wake:
		case <-timeout:
			return ErrTimeout
		}
	}
}

// Abort asks the loop to end every choice that still runs. The reader goes on
// receiving: each choice's last output, with reason Abort and its complete Life,
// comes within one step. Abort may be called at any time from any goroutine, and
// again.
func (s *Stream) Abort() { s.engine.abort(s) }

// put adds an output; tokens and text are copied. It is called by the loop, and
// returns the number of outputs that wait for the reader. For a reader who wants
// all at once, the outputs of a choice that follow each other become one.
//
// Slices of outputs already pending keep pointing to the storage they were cut
// from when an append moves it: that storage is not written again before reset.
func (s *Stream) put(o Output, last bool) (backlog int) {
	s.mu.Lock()
	p := &s.pending
	tokens, text := len(p.tokens), len(p.text)
	p.tokens, p.text = append(p.tokens, o.Tokens...), append(p.text, o.Text...)
	if n := len(p.Outputs) - 1; s.req.Whole && n >= 0 && p.Outputs[n].Choice == o.Choice {
		// It is the latest, so that its storage ends where o's begins.
		before := &p.Outputs[n]
		tokens, text = tokens-len(before.Tokens), text-len(before.Text)
		before.Finish, before.End = o.Finish, o.End
	} else {
		p.Outputs = append(p.Outputs, o)
	}
	latest := &p.Outputs[len(p.Outputs)-1]
	latest.Tokens, latest.Text = p.tokens[tokens:len(p.tokens):len(p.tokens)], p.text[text:len(p.text):len(p.text)]
	s.ended = s.ended || last
	backlog = len(p.Outputs)
	s.mu.Unlock()
	if s.req.Whole && !last {
		return backlog
	}
	select {
	case s.wake <- struct{}{}:
	default: // the reader has been woken already
	}
	return backlog
}
