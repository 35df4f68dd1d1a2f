package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/wasmeter/wasmeter/engine/kvcache"
	"github.com/wasmeter/wasmeter/engine/model"
	"github.com/wasmeter/wasmeter/engine/sample"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
)

// Engine runs requests on one model. Its methods may be called from any
// goroutine.
type Engine struct {
	options   Options
	model     model.Model
	shape     model.Shape
	tokenizer *tokenizer.Tokenizer
	// context is the longest sequence, prompt and output together.
	context int

	stop     chan struct{} // closed by Close
	done     chan struct{} // closed when the loop has ended
	closeErr error         // the model's; read after done

	// mu guards the inbox and the counts of what waits.
	mu     sync.Mutex
	inbox  []command
	closed bool
	lost   error // why nothing more can be computed
	// waitingSeqs and waitingTokens count sequences that no step has computed
	// yet, and their prompt tokens. Submit adds, the loop takes away.
	waitingSeqs, waitingTokens int
	stats                      Stats

	// wake holds one token when the inbox has something for an idle loop.
	wake chan struct{}
}

// command is what handlers ask of the loop.
type command struct {
	stream *Stream
	abort  bool
	queued time.Duration
}

// Stats is the state of the engine after its last step.
type Stats struct {
	Running, Waiting int
	// UsedBlocks of Blocks are held by sequences; CachedBlocks are free, and hold
	// prefixes until somebody needs them.
	UsedBlocks, CachedBlocks, Blocks int
}

// New starts an engine. It owns the model from here on, also when it fails:
// Close closes it. The tokenizer must be the model's own.
func New(m model.Model, t *tokenizer.Tokenizer, o Options) (*Engine, error) {
	e, err := start(m, t, o)
	if err != nil {
		_ = closeModels(m, o.Speculative.Draft) // the first error is the one to tell
		return nil, err
	}
	return e, nil
}

// closeModels closes the model and the draft model, which may be nil.
func closeModels(m, draft model.Model) error {
	if draft == nil {
		return m.Close()
	}
	return errors.Join(m.Close(), draft.Close())
}

func start(m model.Model, t *tokenizer.Tokenizer, o Options) (*Engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = monotonic
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	shape := m.Shape()
	if t.Size() > shape.Vocab {
		return nil, fmt.Errorf("tokenizer has %d tokens, and the model only %d logits", t.Size(), shape.Vocab)
	}
	if shape.Vocab < 1 || shape.Vocab > sample.MaxVocab {
		return nil, fmt.Errorf("model has %d logits; supported are 1 … %d", shape.Vocab, sample.MaxVocab)
	}
	if o.MaxNumBatchedTokens > shape.MaxRows {
		return nil, fmt.Errorf("max_num_batched_tokens: %d is more than the %d rows that %s computes at once", o.MaxNumBatchedTokens, shape.MaxRows, shape.Device)
	}
	perToken := shape
	if o.Speculative.Draft != nil {
		perToken.KVBytes += o.Speculative.Draft.Shape().KVBytes
	}
	blocks, context, err := capacity(perToken, o)
	if err != nil {
		return nil, err
	}
	pool, err := kvcache.NewPool(blocks, o.BlockSize)
	if err != nil {
		return nil, err
	}
	if o.PrefixCaching {
		pool.CachePrefixes(keptBlocks(shape, blocks, o))
	}
	if err := m.Reserve(blocks, o.BlockSize); err != nil {
		return nil, fmt.Errorf("reserve %d KV blocks of %d positions: %w", blocks, o.BlockSize, err)
	}
	e := &Engine{
		options:   o,
		model:     m,
		shape:     shape,
		tokenizer: t,
		context:   context,
		stats:     Stats{Blocks: blocks},
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
		wake:      make(chan struct{}, 1),
	}
	l := &loop{
		engine:  e,
		options: &e.options,
		scheduler: scheduler{
			pool:    pool,
			budget:  o.MaxNumBatchedTokens,
			maxSeqs: o.MaxNumSeqs,
			pace:    pace{target: o.ITLTarget},
		},
		drawing: newDrawing(m, endTokens(t)),
		streams: make(map[*Stream][]*sequence),
	}
	for _, m := range []model.Model{m, o.Speculative.Draft} {
		if t, ok := m.(model.Timer); ok {
			l.timers = append(l.timers, t)
			l.deviceTime += t.DeviceTime()
		}
	}
	if e.options.Speculative.on() {
		if l.speculation, err = newSpeculation(&e.options, t, shape, blocks); err != nil {
			return nil, err
		}
	}
	if f := o.Listener.Start; f != nil {
		f(Capacity{Context: context, Blocks: blocks, BlockSize: o.BlockSize})
	}
	go func() {
		defer close(e.done)
		l.run()
		e.closeErr = closeModels(m, o.Speculative.Draft)
	}()
	return e, nil
}

// endTokens lists the tokens after which the model says no more.
func endTokens(t *tokenizer.Tokenizer) []int32 {
	var ends []int32
	for id := range int32(t.Size()) {
		if t.EOG(id) {
			ends = append(ends, id)
		}
	}
	return ends
}

// capacity is the number of KV blocks that the memory holds, and the longest
// sequence that model, options and blocks allow.
func capacity(s model.Shape, o Options) (blocks, context int, err error) {
	perBlock := s.KVBytes * int64(o.BlockSize)
	n := o.KVCacheMemory / max(perBlock, 1)
	if perBlock == 0 || n > maxBlocks {
		n = maxBlocks
	}
	// More than every sequence at its longest can never be used.
	longest := s.Context
	if o.MaxModelLen > 0 {
		longest = o.MaxModelLen
	}
	if o.MaxModelLen > s.Context {
		return 0, 0, fmt.Errorf("max_model_len: %d is more than the model's context of %d tokens", o.MaxModelLen, s.Context)
	}
	perSeq := int64((longest + o.BlockSize - 1) / o.BlockSize)
	n = min(n, perSeq*int64(o.MaxNumSeqs))
	held := n * int64(o.BlockSize)
	if held < int64(longest) {
		if o.MaxModelLen > 0 {
			return 0, 0, fmt.Errorf("kv_cache_memory: %d bytes hold %d tokens, and max_model_len asks for %d; give at least %d bytes",
				o.KVCacheMemory, held, longest, perSeq*perBlock)
		}
		if held < 2 {
			return 0, 0, fmt.Errorf("kv_cache_memory: %d bytes are less than one block of %d bytes", o.KVCacheMemory, perBlock)
		}
		o.Logger.Warn("context cut to what the KV cache holds", "context", held, "model_context", longest, "kv_cache_memory", o.KVCacheMemory, "needed", perSeq*perBlock)
		longest = int(held)
	}
	return int(n), longest, nil
}

// keptBlocks is the number of blocks that the prefix cache may take memory for
// before it is known to be worth it. See RATIONALE.md: why does the prefix cache
// grow when it is missed.
func keptBlocks(s model.Shape, blocks int, o Options) int {
	if s.KVReserved || s.KVBytes == 0 {
		return blocks // it costs nothing
	}
	return o.MaxNumSeqs
}

// maxBlocks bounds the pool where blocks cost nothing, as on a simulated device.
const maxBlocks = 1 << 22

// Now is a reading of the engine's monotonic clock; it is positive.
func (e *Engine) Now() time.Duration { return e.options.Now() }

// Context is the longest sequence, prompt and output together, in tokens.
func (e *Engine) Context() int { return e.context }

// Ranks tells whether requests are ranked by their priority.
func (e *Engine) Ranks() bool { return e.options.SchedulingPolicy == PolicyPriority }

// NumSpeculative is that of its options.
func (e *Engine) NumSpeculative() int { return e.options.Speculative.NumSpeculative() }

// Shape describes the model.
func (e *Engine) Shape() model.Shape { return e.shape }

// Tokenizer is the model's own.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }

// Stats is the state after the last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Err is why nothing more can be computed: ErrLost, or nil.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}

// lose keeps the error after which no step is computed.
func (e *Engine) lose(err error) {
	e.options.Logger.Error("the device is lost: start the server again", "error", err)
	e.mu.Lock()
	e.lost = err
	e.mu.Unlock()
}

// Submit queues a request as a whole or refuses it as a whole: TooLongError for
// one that can never run, QueueFullError for one that cannot wait, ErrClosed
// after Close, ErrLost without a device, and other errors for what makes no sense.
func (e *Engine) Submit(r *Request) (*Stream, error) {
	if err := r.validate(e.shape.Vocab, e.context); err != nil {
		return nil, err
	}
	seqs, tokens := r.choices(), r.promptTokens()
	s := &Stream{engine: e, req: r, open: seqs, wake: make(chan struct{}, 1)}
	e.mu.Lock()
	defer e.mu.Unlock()
	o := &e.options
	switch {
	case e.closed:
		return nil, ErrClosed
	case e.lost != nil:
		return nil, e.lost
	case o.MaxQueuedRequests > 0 && e.waitingSeqs+seqs > o.MaxQueuedRequests:
		return nil, &QueueFullError{Unit: "requests", Queued: e.waitingSeqs, Asked: seqs, Max: o.MaxQueuedRequests}
	case o.MaxQueuedTokens > 0 && e.waitingTokens+tokens > o.MaxQueuedTokens:
		return nil, &QueueFullError{Unit: "prompt tokens", Queued: e.waitingTokens, Asked: tokens, Max: o.MaxQueuedTokens}
	}
	e.waitingSeqs += seqs
	e.waitingTokens += tokens
	e.post(command{stream: s, queued: o.Now()})
	return s, nil
}

func (e *Engine) abort(s *Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.post(command{stream: s, abort: true})
}

// post adds a command and wakes the loop; mu is held.
func (e *Engine) post(c command) {
	e.inbox = append(e.inbox, c)
	select {
	case e.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// leftQueue says that a sequence with so many prompt tokens no longer waits.
func (e *Engine) leftQueue(promptTokens int) {
	e.mu.Lock()
	e.waitingSeqs--
	e.waitingTokens -= promptTokens
	e.mu.Unlock()
}

// publish keeps the state after a step.
func (e *Engine) publish(s Step) {
	e.mu.Lock()
	e.stats = Stats{Running: s.Running, Waiting: s.Waiting, UsedBlocks: s.UsedBlocks, CachedBlocks: s.CachedBlocks, Blocks: s.Blocks}
	e.mu.Unlock()
}

// Close refuses new requests, aborts those that run, waits for the loop to end
// and closes the model. Readers receive their last outputs. It may be called
// again.
func (e *Engine) Close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		close(e.stop)
	}
	<-e.done
	return e.closeErr
}
