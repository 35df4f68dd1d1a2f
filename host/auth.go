package host

import (
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/openai"
)

// owner is where a request's keys.Owner is kept until its handler returns.
const owner = "owner"

// authenticate refuses requests without a key of the ring, if there is a ring.
func (s *Server) authenticate(c *fiber.Ctx) error {
	ring := s.ring.Load()
	if ring.Len() == 0 {
		return c.Next()
	}
	scheme, key, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "bearer") || key == "" {
		return s.unauthorized(c, "no API key; send the header Authorization: Bearer KEY")
	}
	o, ok := ring.Find(utils.CopyString(strings.TrimSpace(key)))
	if !ok {
		return s.unauthorized(c, "the API key is not known here")
	}
	c.Locals(owner, o)
	return c.Next()
}

func (s *Server) unauthorized(c *fiber.Ctx, message string) error {
	c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	return openai.Unauthorized(message)
}

// ownerOf is whom the request's key stands for; empty where keys are not asked
// for.
func ownerOf(c *fiber.Ctx) keys.Owner {
	o, _ := c.Locals(owner).(keys.Owner)
	return o
}
