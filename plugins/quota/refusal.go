package main

import (
	"strconv"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// Statuses of refusals.
const (
	badRequest      = 400
	tooManyRequests = 429
	unavailable     = 503
)

// longestWait is the ABI's limit of retry_after: a day. The header x-quota-reset
// and the message have the whole time.
const longestWait = secsPerDay

// refuse denies a request that a limit has no room for, until its window ends.
func (o *config) refuse(r wasmeter.Request, out *wasmeter.Answer, t *tier, s standing, now, need uint64) {
	wait := s.end - now
	o.writeHeaders(out, s, now)
	m := words[:0]
	m.text("quota exceeded: ").limit(r, t, s.limit, o.count).text("; ").number(s.used).text(" are used or set aside, this request needs up to ").
		number(need).text("; the ").text(windowNames[s.limit.window]).text(" ends in ").number(wait).text(" s")
	out.Deny(tooManyRequests, "quota_exceeded", m.keep(), uint32(min(wait, longestWait)))
}

// refuseTooLarge denies a request that would not fit into an unused window:
// waiting does not help it, so that it is no 429.
func (o *config) refuseTooLarge(r wasmeter.Request, out *wasmeter.Answer, l *limit, t *tier, need uint64) {
	m := words[:0]
	m.text("this request needs up to ").number(need).text(" tokens, more than a whole ").text(windowNames[l.window]).text(" allows: ").limit(r, t, l, o.count)
	switch {
	case o.count == prompt:
		m.text("; send a shorter prompt")
	case r.MaxTokens() == 0:
		m.text("; ask for a number of tokens, since without one ").number(o.assumed).text(" are set aside for each choice")
	default:
		m.text("; ask for fewer than ").number(uint64(r.MaxTokens())).text(" tokens")
	}
	out.Deny(badRequest, "quota_request_too_large", m.keep(), 0)
}

// unavailable is for counts that can't be reached or have no room.
func (o *config) unavailable(out *wasmeter.Answer, err error) {
	m := words[:0]
	m.text("a request is not counted: ").text(err.Error())
	wasmeter.Log(wasmeter.Warn, m.keep())
	if o.strict {
		out.Deny(unavailable, "quota_unavailable", "the quota can't be checked at the moment; try again", 1)
	}
}

// writeHeaders tells how the nearest limit stands.
func (o *config) writeHeaders(out *wasmeter.Answer, s standing, now uint64) {
	if !o.headers {
		return
	}
	for _, h := range [...]struct {
		name  string
		value uint64
	}{{"x-quota-limit", s.limit.tokens}, {"x-quota-remaining", s.left()}, {"x-quota-reset", s.end - now}} {
		number = strconv.AppendUint(number[:0], h.value, 10)
		out.Headers.Str(h.name, view(number))
	}
}

// message is a text for people that grows.
type message []byte

// words is the memory of the last message: a refusal allocates nothing, or who is
// refused often enough would make garbage that some call has to collect.
var words message

// mostMessage keeps a message within the ABI's 1 KiB, whatever a model is named.
const mostMessage = 1000

func (m *message) text(s string) *message {
	*m = append(*m, s...)
	return m
}

func (m *message) number(n uint64) *message {
	*m = strconv.AppendUint(*m, n, 10)
	return m
}

// keep gives the text, valid until the next message.
func (m *message) keep() string {
	words = *m
	return view(words[:min(len(words), mostMessage)])
}

var measureWords = [...]string{total: " tokens per ", prompt: " prompt tokens per ", completion: " completion tokens per "}

// limit says what a limit is and whose: 1000 tokens per minute for tenant acme.
func (m *message) limit(r wasmeter.Request, t *tier, l *limit, count measure) *message {
	m.number(l.tokens).text(measureWords[count]).text(windowNames[l.window]).text(" for ")
	switch {
	case l.per == perClass:
		return m.text("the class ").text(t.Name)
	case r.Tenant() == "":
		m.text("requests without a key")
	default:
		m.text("tenant ").text(r.Tenant())
	}
	switch l.per {
	case perModel:
		m.text(", model ").text(r.Model())
	case perKey:
		m.text(", key ").text(r.KeyName())
	}
	return m
}
