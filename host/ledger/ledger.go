// Package ledger keeps what requests used: for each accepted request, whatever
// its end, one record with the frame that plugins saw and what they emitted.
//
// Recorder is the seam; File is a recorder that appends JSON lines to a file and
// makes them durable in groups.
package ledger

import (
	"time"
)

// Recorder keeps records. It may be used by many goroutines.
type Recorder interface {
	// Append returns once the record is durable, or with the reason why it is
	// not. The record's slices must not change until then.
	Append(r *Record) error
	// Close makes everything durable and ends the recorder.
	Close() error
}

// Record is the account of one request.
type Record struct {
	// AttemptID is the server's own name of the request, unique for ever: a
	// UUIDv7. It is the key under which an effect happens once.
	AttemptID string
	// Time is the wall clock when the record was made.
	Time time.Time
	// RequestID is the x-request-id.
	RequestID string
	Tenant    string
	KeyName   string
	Model     string
	// Endpoint is chat, completions or responses; Outcome is the end in the words
	// of the plugin ABI.
	Endpoint, Outcome string

	PromptTokens, CachedTokens, CompletionTokens int
	// Drafts counts the tokens that were guessed ahead; nil where the server
	// does not speculate.
	Drafts *Drafts
	// DeviceTime is the request's share of the device's time.
	DeviceTime time.Duration

	// Frame is what the plugins' finish hook saw (host/plugin/ABI.md), for
	// pricing the request again.
	Frame []byte
	// Emitted is what plugins made of it.
	Emitted []Emitted
	// Unpriced names the plugins whose finish hook failed, so that they have
	// emitted nothing: the frame is to be priced again.
	Unpriced []string
}

// Drafts are guessed tokens that the model checked, and those of them that
// became the request's.
type Drafts struct{ Drafted, Accepted int }

// Emitted is a record that a plugin emitted. Attempt, plugin and index are its
// key.
type Emitted struct {
	Plugin string
	Index  int
	// Kind is the plugin's own number for the kind of record.
	Kind int32
	// Data is a JSON value.
	Data []byte
}
