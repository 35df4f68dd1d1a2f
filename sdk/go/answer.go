package wasmeter

// Answer is what a hook adds, changes or decides. Writing nothing changes
// nothing. All but Carry needs a grant of the configuration.
type Answer struct {
	// Fields are members for the answer's top level, Usage for its usage.
	// Both belong to the hook Shape.
	Fields, Usage JSON
	// Headers are response headers, as strings. They belong to the hooks
	// Request and Shape; in a stream Shape is too late for them.
	Headers JSON

	rest JSON // the members that are not objects of the hook's own
	buf  []byte
}

// Carry leaves text, at most 4 KiB, for this plugin's later hooks on the
// request: Request.Carry.
func (a *Answer) Carry(text string) { a.rest.Str("carry", text) }

// Deny refuses the request, in the hook Request. status is 400 … 599, code is
// for programs, message for people, retryAfter in seconds, 0 for none.
func (a *Answer) Deny(status uint16, code, message string, retryAfter uint32) {
	a.rest.Object("deny").Uint("status", uint64(status)).Str("code", code).Str("message", message)
	if retryAfter > 0 {
		a.rest.Uint("retry_after", uint64(retryAfter))
	}
	a.rest.End()
}

// Priority sets the request's priority, in the hook Request.
func (a *Answer) Priority(value int32) { a.rest.Int("priority", int64(value)) }

// DeadlineMS sets the request's deadline in milliseconds since its arrival,
// in the hook Request.
func (a *Answer) DeadlineMS(value uint32) { a.rest.Uint("deadline_ms", uint64(value)) }

// Replace puts a JSON document in the place of the answer or the chunk, in
// the hooks Shape and Chunk.
func (a *Answer) Replace(document []byte) { a.rest.Raw("document", view(document)) }

// AppendTo appends the result document to dst: nothing if nothing was
// written. It is for tests of a hook.
func (a *Answer) AppendTo(dst []byte) []byte { return append(dst, a.document()...) }

// document gives the result document, valid until the next one.
func (a *Answer) document() []byte {
	a.buf = append(a.buf[:0], '{')
	a.object("fields", &a.Fields)
	a.object("usage", &a.Usage)
	a.object("headers", &a.Headers)
	if len(a.rest.buf) > 0 {
		a.comma()
		a.buf = a.rest.AppendTo(a.buf)
	}
	if len(a.buf) == 1 {
		return nil
	}
	a.buf = append(a.buf, '}')
	return a.buf
}

// object appends a member whose value has the members of w, if it has any.
func (a *Answer) object(name string, w *JSON) {
	if len(w.buf) == 0 {
		return
	}
	a.comma()
	a.buf = append(a.buf, '"')
	a.buf = append(a.buf, name...)
	a.buf = append(a.buf, `":{`...)
	a.buf = append(w.AppendTo(a.buf), '}')
}

func (a *Answer) comma() {
	if len(a.buf) > 1 {
		a.buf = append(a.buf, ',')
	}
}

// reset forgets what was written and keeps the memory.
func (a *Answer) reset() {
	for _, w := range [...]*JSON{&a.Fields, &a.Usage, &a.Headers, &a.rest} {
		w.reset()
	}
}
