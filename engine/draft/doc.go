// Package draft decides which tokens are guessed ahead of the model, and how
// many: speculative decoding without the model. It knows integers and times
// only; the engine has the drafts checked.
//
// An Index guesses from the text so far, an Acceptance tells how often guesses
// have come true, and Choose weighs that against what steps take: a draft is a
// row of the step's batch, which pays if it saves more time than it takes.
package draft
