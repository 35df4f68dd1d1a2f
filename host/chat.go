package host

import (
	"errors"
	"io"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine"
	"github.com/wasmeter/wasmeter/engine/tokenizer"
	"github.com/wasmeter/wasmeter/host/chat"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// chatCompletions serves POST /v1/chat/completions.
func (s *Server) chatCompletions(c *fiber.Ctx) error {
	arrival := s.parts.Engine.Now()
	q, err := openai.DecodeChat(c.Request().Body())
	if err != nil {
		return err
	}
	if err := s.serves(q.Model); err != nil {
		return err
	}
	prompt, err := s.chatPrompt(q.Messages, q.TemplateVariables, true, q.AddSpecialTokens.Or(false))
	if err != nil {
		return err
	}
	r, err := s.start(c, openai.Chat, &q.Generation, [][]int32{prompt}, arrival, nil)
	if err != nil {
		return err
	}
	id, created := "chatcmpl-"+r.requestID, now()
	if q.Stream {
		return s.sendStream(c, r, newChatEvents(r, id, created))
	}
	defer r.close(c.UserContext())
	done, err := r.complete(nil)
	if err != nil {
		return err
	}
	done.ID, done.Created = id, created
	return r.send(c, func(members, usage []byte) []byte {
		done.Extra, done.Usage.Extra = members, usage
		return openai.AppendChat(nil, done)
	})
}

// serves refuses a model that is not here.
func (s *Server) serves(model string) error {
	for _, name := range s.parts.Models {
		if name == model {
			return nil
		}
	}
	return openai.ModelNotFound(model, s.parts.Models)
}

// chatPrompt renders messages by the model's own template and tokenizes them.
// Control tokens are recognized in the template's text only. variables is a JSON
// object for the template, or nil. Templates write what begins a text
// themselves; addSpecial adds what the tokenizer would.
func (s *Server) chatPrompt(messages []openai.Message, variables []byte, open, addSpecial bool) ([]int32, error) {
	if s.parts.Template == nil {
		return nil, openai.InvalidRequest("messages", s.parts.NoTemplate.Error())
	}
	conversation := chat.Conversation{
		Messages:            make([]chat.Message, len(messages)),
		Variables:           variables,
		AddGenerationPrompt: open,
	}
	for i, m := range messages {
		conversation.Messages[i] = chatMessage(m)
	}
	pieces, err := s.parts.Template.Render(conversation)
	var broken *chat.TemplateError
	switch {
	case errors.As(err, &broken):
		return nil, openai.ServerError(err.Error() + "; it came with the model's file, which needs another")
	case err != nil:
		return nil, openai.InvalidRequest("messages", err.Error())
	}
	t := s.parts.Engine.Tokenizer()
	var ids []int32
	if bos, ok := t.BOS(); ok && addSpecial && t.AddBOS() {
		ids = append(ids, bos)
	}
	for _, p := range pieces {
		mode := tokenizer.AsText
		if p.Special {
			mode = tokenizer.Parsed
		}
		ids = t.Encode(ids, p.Text, mode)
	}
	if len(ids) == 0 {
		return nil, openai.InvalidRequest("messages", "the messages make an empty prompt")
	}
	return ids, nil
}

func chatMessage(m openai.Message) chat.Message {
	out := chat.Message{Role: m.Role, Content: m.Content, Name: m.Name, Reasoning: m.Reasoning, ToolCallID: m.ToolCallID}
	for _, t := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: t.ID, Name: t.Name, Arguments: t.Arguments})
	}
	return out
}

// complete waits for all of a run that is not streamed. echo is nil, or says
// what each choice begins with.
func (r *run) complete(echo *echo) (*openai.Completed, error) {
	done := &openai.Completed{
		Model:       r.generation.Model,
		Fingerprint: r.server.fingerprint,
		Choices:     make([]openai.Choice, len(r.choices)),
	}
	texts := make([][]byte, len(r.choices))
	for {
		outputs, err := r.receive(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i := range outputs {
			o := &outputs[i]
			text, logprobs := r.piece(echo, o)
			texts[o.Choice] = append(texts[o.Choice], text...)
			done.Choices[o.Choice].Logprobs = append(done.Choices[o.Choice].Logprobs, logprobs...)
		}
		if err := r.failure(); err != nil {
			return nil, err
		}
	}
	for i := range done.Choices {
		c := &done.Choices[i]
		c.Index, c.Text = i, string(texts[i])
		c.Finish, c.Stop = finishReason(r.choices[i].finish), r.choices[i].stopString
	}
	done.Usage = r.usage()
	return done, nil
}

// chatEvents writes the chunks of a chat completion.
type chatEvents struct {
	run    *run
	stream *openai.Stream
	gate   openai.UsageGate
}

func newChatEvents(r *run, id string, created int64) *chatEvents {
	o := r.opening(id, created)
	return &chatEvents{run: r, stream: openai.NewChatStream(o), gate: o.Gate}
}

// opening is what all chunks of the run's stream say.
func (r *run) opening(id string, created int64) openai.StreamOpening {
	return openai.StreamOpening{
		ID:          id,
		Model:       r.generation.Model,
		Created:     created,
		Fingerprint: r.server.fingerprint,
		Choices:     len(r.choices),
		Gate:        r.generation.StreamOptions.Gate(r.server.forceUsage),
	}
}

func (e *chatEvents) open(dst []byte) []byte {
	for i := range e.run.choices {
		dst = e.stream.AppendRole(dst, i, e.run.runningUsage(i, e.gate, 0))
	}
	return dst
}

func (e *chatEvents) output(dst []byte, o *engine.Output) []byte {
	return e.run.chunk(dst, e.stream, e.gate, nil, o)
}

func (e *chatEvents) final() bool { return e.gate.Final }

func (e *chatEvents) close(dst []byte, shaped plugin.Shaped) []byte {
	return e.run.closeChunks(dst, e.stream, e.gate, shaped)
}

func (e *chatEvents) fail(dst []byte, err *openai.Error) []byte {
	return openai.AppendDone(openai.AppendErrorEvent(dst, err))
}

// chunk appends what an output brings to a stream of chunks: text, if any came
// or log probabilities are wanted, and the end.
func (r *run) chunk(dst []byte, s *openai.Stream, gate openai.UsageGate, echo *echo, o *engine.Output) []byte {
	text, logprobs := r.piece(echo, o)
	c := openai.Chunk{Index: o.Choice, Text: text, Logprobs: logprobs}
	c.Usage = r.runningUsage(o.Choice, gate, r.choices[o.Choice].shown)
	if o.Finish != engine.None {
		return s.AppendFinish(dst, &c, finishReason(o.Finish), o.StopString)
	}
	if text == "" && logprobs == nil {
		return dst // held back until it is decided
	}
	return s.AppendText(dst, &c)
}

// piece is what an output adds to its choice: text, and log probabilities if
// they are wanted. It is called once for each output, in order.
func (r *run) piece(echo *echo, o *engine.Output) (string, []openai.TokenLogprob) {
	text, logprobs := "", []openai.TokenLogprob(nil)
	c := &r.choices[o.Choice]
	if c.shown == 0 && len(o.Tokens) > 0 {
		text, logprobs = echo.begin(o.Choice, o.Prompt)
	}
	c.shown += len(o.Tokens)
	if echo != nil && echo.hidden {
		return text, logprobs
	}
	return text + string(o.Text), r.logprobs(logprobs, o.Tokens)
}

// closeChunks appends the end of a stream of chunks.
func (r *run) closeChunks(dst []byte, s *openai.Stream, gate openai.UsageGate, shaped plugin.Shaped) []byte {
	if gate.Final {
		u := r.usage()
		u.Extra = shaped.Usage
		dst = s.AppendUsage(dst, &u, shaped.Members)
	}
	return openai.AppendDone(dst)
}

// runningUsage is the usage that a chunk of a choice says, or nil where the
// stream says none: the prompt of the choice, and the choice's own tokens.
func (r *run) runningUsage(index int, gate openai.UsageGate, tokens int) *openai.Usage {
	if !gate.Continuous {
		return nil
	}
	return &openai.Usage{
		Prompt:     len(r.request.Prompts[index/r.request.N]),
		Completion: tokens,
		Details:    r.server.options.Metrics.PromptTokensDetails,
	}
}
