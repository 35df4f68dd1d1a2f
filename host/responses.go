package host

import (
	"errors"
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// responses serves POST /v1/responses. Responses are not stored.
func (s *Server) responses(c *fiber.Ctx) error {
	arrival := s.parts.Engine.Now()
	q, err := openai.DecodeResponses(c.Request().Body())
	if err != nil {
		return err
	}
	if err := s.serves(q.Model); err != nil {
		return err
	}
	if q.PreviousResponseID != "" {
		return openai.ResponseNotFound(q.PreviousResponseID, "previous_response_id")
	}
	prompt, err := s.chatPrompt(q.Messages, nil, true, q.AddSpecialTokens.Or(false))
	if err != nil {
		return err
	}
	r, err := s.start(c, openai.Responses, &q.Generation, [][]int32{prompt}, arrival, nil)
	if err != nil {
		return err
	}
	p := &openai.Response{
		Request:   q,
		ID:        "resp_" + r.requestID,
		ItemID:    newID("msg_"),
		CreatedAt: r.arrived.Unix(),
		Status:    openai.ResponseInProgress,
	}
	e := &responseEvents{run: r, response: p, stream: openai.NewResponseStream(p)}
	if q.Stream {
		return s.sendStream(c, r, e)
	}
	defer r.close(c.UserContext())
	for {
		outputs, err := r.receive(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.failure()
		}
		if err != nil {
			return err
		}
		for i := range outputs {
			e.keep(&outputs[i])
		}
	}
	return r.send(c, func(members, usage []byte) []byte {
		e.complete(members, usage)
		return openai.AppendResponse(nil, p)
	})
}

// responseEvents writes the events of a response, and gathers the resource that
// the last one repeats.
type responseEvents struct {
	run      *run
	response *openai.Response
	stream   *openai.ResponseStream
	text     []byte
}

// keep adds an output to the resource.
func (e *responseEvents) keep(o *engine.Output) {
	e.text = append(e.text, o.Text...)
	e.response.Logprobs = e.run.logprobs(e.response.Logprobs, o.Tokens)
}

// complete gives the resource its end.
func (e *responseEvents) complete(members, usage []byte) {
	p, u := e.response, e.run.usage()
	u.Extra = usage
	p.Text, p.Usage, p.Extra = string(e.text), &u, members
	p.Status, p.CompletedAt = openai.ResponseCompleted, now()
	if e.run.choices[0].finish == engine.Length {
		p.Status, p.CompletedAt, p.Incomplete = openai.ResponseIncomplete, 0, "max_output_tokens"
	}
}

func (e *responseEvents) open(dst []byte) []byte {
	return e.stream.AppendItem(e.stream.AppendStart(dst))
}

func (e *responseEvents) output(dst []byte, o *engine.Output) []byte {
	e.keep(o)
	logprobs := e.run.logprobs(nil, o.Tokens)
	if len(o.Text) == 0 && logprobs == nil {
		return dst // held back until it is decided
	}
	return e.stream.AppendDelta(dst, string(o.Text), logprobs)
}

func (e *responseEvents) final() bool { return true }

func (e *responseEvents) close(dst []byte, shaped plugin.Shaped) []byte {
	e.complete(shaped.Members, shaped.Usage)
	return e.stream.AppendEnd(dst)
}

func (e *responseEvents) fail(dst []byte, err *openai.Error) []byte {
	p, u := e.response, e.run.usage()
	p.Text, p.Usage, p.Status, p.Err = string(e.text), &u, openai.ResponseFailed, err
	return e.stream.AppendEnd(dst)
}
