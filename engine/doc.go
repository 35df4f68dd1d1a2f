// Package engine runs requests on a model: tokens in, tokens and text out, with
// an exact record of when everything happened.
//
// One goroutine, the loop, owns scheduler, sequences, KV blocks, sampler and
// model; none of them has a lock. Each turn of the loop
//
//  1. takes the commands that handlers have posted (submit, abort),
//  2. schedules: spends a budget of rows on letting each sequence's computed
//     tokens catch up with its known tokens (scheduler.go),
//  3. adds tokens that are guessed, where checking them pays (speculation.go),
//     fills a batch of integers (batch.go) and has the model compute it,
//  4. samples a token for each sequence that caught up, and more where guesses
//     were right (draw.go), unless the device does so: then the next step is planned
//     and queued meanwhile, if it can be foreseen (flight.go),
//  5. decides text and ends (stop.go), and puts the outputs into the streams'
//     mailboxes (stream.go), where the readers find them.
//
// The loop never waits for a reader and knows no HTTP, JSON or plugin. Handlers
// tokenize, format and write in goroutines of their own.
//
// Two readings of one monotonic clock stamp each step; see Life.
package engine
