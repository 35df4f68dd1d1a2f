package host

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/host/ledger"
	"github.com/wasmeter/wasmeter/host/openai"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// rewritten is the response header that names the plugin that replaced what the
// model said; a client should know.
const rewritten = "X-Wasmeter-Rewritten-By"

// admit asks the plugins whether the request may be queued.
func (r *run) admit(c *fiber.Ctx) error {
	if !r.chain.Has(plugin.HookRequest) {
		return nil
	}
	frame := r.frame(false)
	if r.chain.WantsDocument(plugin.HookRequest) {
		frame.Document = c.Request().Body()
	}
	verdict, err := r.chain.Request(c.UserContext(), &frame, &r.plugins)
	if err != nil {
		r.end = plugin.OutcomePluginError
		return err
	}
	setHeaders(c, verdict.Headers)
	r.take(verdict.Admission)
	d := verdict.Deny
	if d == nil {
		return nil
	}
	r.end = plugin.OutcomeDenied
	return &openai.Error{Status: d.Status, Type: denialType(d.Status), Message: d.Message, Code: d.Code, RetryAfter: d.RetryAfter}
}

// take hands what plugins say of the request's place and time to the engine.
func (r *run) take(a plugin.Admission) {
	if a.Ranked {
		r.request.Priority = int(a.Priority)
	}
	if r.deadlineMS = a.DeadlineMS; a.DeadlineMS > 0 {
		r.request.Deadline = r.request.Arrival + time.Duration(a.DeadlineMS)*time.Millisecond
	}
}

// late is the error of a request whose deadline has passed.
func (r *run) late() error {
	return &openai.Error{
		Status: fiber.StatusGatewayTimeout, Type: "server_error", Code: "deadline_exceeded",
		Message: fmt.Sprintf("the request was to end within %d ms, and had %d tokens by then; ask for fewer tokens, or again when the server has less to do", r.deadlineMS, r.usage().Completion),
	}
}

func denialType(status int) string {
	switch {
	case status == fiber.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

func setHeaders(c *fiber.Ctx, headers []plugin.Header) {
	for _, h := range headers {
		c.Set(h.Name, h.Value)
	}
}

// shape asks the plugins what to add to the answer. document is the answer
// without it, or nil in a stream, where the chunk hook sees each event. What is
// returned is valid until the plugins are asked again; the error is that of a
// plugin whose policy is to refuse the answer.
func (r *run) shape(ctx context.Context, document func() []byte) (plugin.Shaped, error) {
	if !r.chain.Has(plugin.HookShape) {
		return plugin.Shaped{}, nil
	}
	frame := r.frame(document == nil)
	if document != nil && r.chain.WantsDocument(plugin.HookShape) {
		frame.Document = document()
	}
	shaped, err := r.chain.Shape(ctx, &frame, &r.plugins)
	if err != nil {
		r.end, r.refused = plugin.OutcomePluginError, err
	}
	return shaped, err
}

// send writes an answer that is not streamed, with what the plugins make of it;
// write appends it with members at its top level and in its usage. The account
// is closed before the first byte leaves.
func (r *run) send(c *fiber.Ctx, write func(members, usage []byte) []byte) error {
	shaped, err := r.shape(c.UserContext(), func() []byte { return write(nil, nil) })
	if err != nil {
		return err
	}
	setHeaders(c, shaped.Headers)
	var body []byte
	if shaped.Document != nil {
		c.Set(rewritten, shaped.Rewriter)
		body = plugin.Splice(bytes.Clone(shaped.Document), shaped.Members)
	} else {
		body = write(shaped.Members, shaped.Usage)
	}
	r.settle(c.UserContext())
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(body)
}

// chunkHook hands each event of a stream's bytes to the plugins' chunk hook.
func (r *run) chunkHook(ctx context.Context, events []byte) ([]byte, error) {
	var out []byte
	for len(events) > 0 {
		event := events
		if i := bytes.Index(events, []byte("\n\n")); i >= 0 {
			event = events[:i+2]
		}
		events = events[len(event):]
		head, data, ok := bytes.Cut(event, []byte("data: "))
		if !ok || !bytes.HasPrefix(data, []byte("{")) {
			out = append(out, event...) // a comment, or [DONE]
			continue
		}
		frame := r.frame(false)
		replaced, err := r.chain.Chunk(ctx, &frame, &r.plugins, bytes.TrimSuffix(data, []byte("\n\n")))
		if err != nil {
			r.end = plugin.OutcomePluginError
			return out, err
		}
		out = append(append(append(append(out, head...), "data: "...), replaced...), "\n\n"...)
	}
	return out, nil
}

// settle closes the request's account: the plugins' finish hook, and one record
// with the frame and all they emitted. It does so once, whatever the request's
// end; what goes wrong is told to the operator and never touches the answer. Failed
// plugins have been told by package plugin, and are named in the record.
func (r *run) settle(ctx context.Context) {
	if r.settled {
		return
	}
	r.settled = true
	defer r.set.Release()
	s := r.server
	finishes := r.chain.Has(plugin.HookFinish)
	if !finishes && s.parts.Ledger == nil {
		return
	}
	frame := r.frame(false)
	finished := r.chain.Finish(ctx, &frame, &r.plugins)
	if s.parts.Ledger != nil {
		if err := s.parts.Ledger.Append(r.record(&frame, &finished)); err != nil {
			s.parts.Logger.Error("usage record not kept", "error", err, "request_id", r.requestID, "attempt_id", r.attemptID)
			return // without its record nothing of it may have an effect
		}
	}
	if len(finished.Writes) > 0 {
		if err := s.parts.KV.Write(finished.Writes); err != nil {
			s.parts.Logger.Error("plugins' values not kept", "error", err, "request_id", r.requestID)
		}
	}
}

// record is what the ledger keeps of the request.
func (r *run) record(frame *plugin.Frame, finished *plugin.Finished) *ledger.Record {
	record := &ledger.Record{
		AttemptID:        r.attemptID,
		Time:             time.Now(),
		RequestID:        r.requestID,
		Tenant:           r.owner.Tenant,
		KeyName:          r.owner.Name,
		Model:            r.generation.Model,
		Endpoint:         endpointNames[r.endpoint],
		Outcome:          outcomeNames[frame.Outcome],
		PromptTokens:     int(frame.PromptTokens),
		CachedTokens:     int(frame.CachedPromptTokens),
		CompletionTokens: int(frame.CompletionTokens),
		DeviceTime:       time.Duration(frame.DeviceNS),
		Frame:            frame.Append(nil, plugin.HookFinish),
	}
	if r.server.parts.Engine.NumSpeculative() > 0 {
		record.Drafts = &ledger.Drafts{Drafted: int(frame.DraftedTokens), Accepted: int(frame.AcceptedTokens)}
	}
	for _, e := range finished.Records {
		record.Emitted = append(record.Emitted, ledger.Emitted{Plugin: e.Plugin, Index: e.Index, Kind: e.Kind, Data: e.Data})
	}
	for _, f := range finished.Failed {
		record.Unpriced = append(record.Unpriced, f.Plugin)
	}
	return record
}

var endpointNames = [...]string{openai.Chat: "chat", openai.Completions: "completions", openai.Responses: "responses"}

// outcomeNames are the outcomes in the ABI's words.
var outcomeNames = [...]string{
	plugin.OutcomeRunning: "running", plugin.OutcomeStop: "stop", plugin.OutcomeLength: "length", plugin.OutcomeToolCalls: "tool_calls",
	plugin.OutcomeClientAbort: "client_abort", plugin.OutcomeServerError: "server_error", plugin.OutcomeRejected: "rejected",
	plugin.OutcomeDeadline: "deadline", plugin.OutcomeShutdown: "shutdown", plugin.OutcomeSlowReader: "slow_reader", plugin.OutcomeDenied: "denied",
	plugin.OutcomePluginError: "plugin_error", plugin.OutcomeCrashRecovered: "crash_recovered",
}
