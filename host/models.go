package host

import (
	"net/url"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/host/openai"
)

// listModels serves GET /v1/models.
func (s *Server) listModels(c *fiber.Ctx) error {
	models := make([]openai.Model, len(s.parts.Models))
	for i, name := range s.parts.Models {
		models[i] = s.describe(name)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(openai.AppendModels(nil, models))
}

// showModel serves GET /v1/models/{id}; an id may hold slashes.
func (s *Server) showModel(c *fiber.Ctx) error {
	name, err := url.PathUnescape(c.Params("*"))
	if err != nil {
		return openai.InvalidRequest("model", "the model's name in the path is not percent-encoded right")
	}
	if err := s.serves(name); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	model := s.describe(name)
	return c.Send(openai.AppendModel(nil, &model))
}

func (s *Server) describe(name string) openai.Model {
	return openai.Model{ID: name, Created: s.started.Unix(), OwnedBy: "wasmeter", MaxModelLen: s.parts.Engine.Context()}
}
