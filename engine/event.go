package engine

import "time"

// Life is the exact life of one sequence. Times are readings of Engine.Now; a
// time of 0 never happened.
//
// Each step takes two readings, which all its sequences share: its start,
// before scheduling, stamps Scheduled; its end, when the token ids are in the
// host's hands, stamps First, Last and Finished. The first Scheduled wins;
// preemption moves nothing.
type Life struct {
	// Queued is when the sequence entered the waiting queue.
	Queued time.Duration
	// Scheduled is the start of the first step that computed it.
	Scheduled time.Duration
	// First and Last are the ends of the steps that sampled its first and its
	// last token.
	First, Last time.Duration
	// Finished is when it ended, in whatever way.
	Finished time.Duration
	// DeviceTime is its share of the steps' time, by rows computed: the time that
	// the device's own clock gives where it has one, else all of a step's. Over all
	// sequences it adds up to the time the device was busy.
	DeviceTime time.Duration

	PromptTokens int
	// CachedTokens is the part of the prompt that was found in the prefix cache,
	// CacheWriteTokens the part that was computed and put there: whole blocks.
	CachedTokens, CacheWriteTokens int
	// CompletionTokens counts sampled tokens through the one that ended the
	// sequence, that one included.
	CompletionTokens int
	// RecomputedTokens counts rows computed again after preemptions.
	RecomputedTokens int
	Preemptions      int
	// Drafts is what became of its drafts; nil without speculation.
	Drafts *DraftCounts
}

// EventKind says what happened to a sequence.
type EventKind uint8

// The kinds; the numbers are those of the plugin ABI's event records.
const (
	Queued     EventKind = 1
	Scheduled  EventKind = 2
	FirstToken EventKind = 3
	// Tokens is sent once a step that sampled tokens after the first.
	Tokens    EventKind = 4
	Preempted EventKind = 5
	Resumed   EventKind = 6
	Finished  EventKind = 7
	Aborted   EventKind = 8
	// Drafted is sent, before Tokens, once a step that checked drafts.
	Drafted EventKind = 10
)

// Event is one thing that happened to one sequence.
type Event struct {
	Kind EventKind
	// Choice is the sequence's index in its request.
	Choice int
	// Time is the step's reading that stamps the event.
	Time time.Duration
	// Tokens is the number of tokens sampled (FirstToken, Tokens), of rows to
	// compute (Scheduled, Resumed), or of drafts that were accepted (Drafted).
	Tokens int
	// Drafts is the number of drafts that were checked (Drafted).
	Drafts int
	// BatchTokens is the number of rows of the step.
	BatchTokens int
	// StepTime is the step's length (FirstToken, Tokens).
	StepTime time.Duration
	// Gap is the time since the sequence's previous token (Tokens).
	Gap time.Duration
}

// Step is what one step of the loop did.
type Step struct {
	// Start and End are the step's two readings.
	Start, End time.Duration
	// Rows were computed, of which Prompt were prompt tokens computed for the
	// first time; Sampled tokens came out.
	Rows, Prompt, Sampled int
	Preemptions           int
	// Running and Waiting are the numbers of sequences after the step.
	Running, Waiting int
	// UsedBlocks of Blocks are held by sequences after the step; CachedBlocks are
	// free, and hold prefixes until somebody needs them.
	UsedBlocks, CachedBlocks, Blocks int
}

// Capacity is what an engine can hold; it does not change.
type Capacity struct {
	// Context is the longest sequence, prompt and output together, in tokens.
	Context int
	// Blocks of BlockSize positions each hold keys and values.
	Blocks, BlockSize int
}

// Listener observes the engine. Its functions are called by the loop, in order
// of time: they must not block, and must not keep the pointers they are given;
// a request's may be kept until the last of its choices has ended. A nil
// function is not called.
type Listener struct {
	// Start is called once, by New, before all others.
	Start func(c Capacity)
	// Event is called for each event. life is the sequence's life so far.
	Event func(r *Request, e Event, life *Life)
	// Finish is called once for each sequence, after its last event.
	Finish func(r *Request, reason FinishReason, life *Life)
	// Step is called at the end of each step, and when the engine falls idle.
	Step func(s Step)
}
