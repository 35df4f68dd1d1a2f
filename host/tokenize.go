package host

import (
	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/engine/tokenizer"
	"github.com/wasmeter/wasmeter/host/openai"
)

// tokenize serves POST /tokenize: what a prompt or messages become. The count is
// that of usage.prompt_tokens.
func (s *Server) tokenize(c *fiber.Ctx) error {
	q, err := openai.DecodeTokenize(c.Request().Body())
	if err != nil {
		return err
	}
	if q.Model != "" {
		if err := s.serves(q.Model); err != nil {
			return err
		}
	}
	var ids []int32
	if q.Messages != nil {
		ids, err = s.chatPrompt(q.Messages, q.TemplateVariables, q.AddGenerationPrompt, q.AddSpecialTokens)
		if err != nil {
			return err
		}
	} else {
		ids = s.encodePrompt(q.Prompt, q.AddSpecialTokens)
	}
	tokens := make([]int, len(ids))
	for i, id := range ids {
		tokens[i] = int(id)
	}
	var texts []string
	if q.WithTexts {
		texts = make([]string, len(ids))
		for i, id := range ids {
			texts[i] = string(s.parts.Engine.Tokenizer().Piece(id))
		}
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(openai.AppendTokenized(nil, tokens, s.parts.Engine.Context(), texts))
}

// detokenize serves POST /detokenize: the text of token ids, control tokens
// included.
func (s *Server) detokenize(c *fiber.Ctx) error {
	q, err := openai.DecodeDetokenize(c.Request().Body())
	if err != nil {
		return err
	}
	if q.Model != "" {
		if err := s.serves(q.Model); err != nil {
			return err
		}
	}
	t := s.parts.Engine.Tokenizer()
	d := tokenizer.NewDecoder(t)
	d.ShowControl, d.Whole = true, true
	var text []byte
	for _, id := range q.Tokens {
		if id >= t.Size() {
			return openai.InvalidRequest("tokens", outOfVocabulary(id, t.Size()))
		}
		text = d.AppendPush(text, int32(id))
	}
	text = d.AppendFlush(text)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(openai.AppendDetokenized(nil, string(text)))
}
