package host

import "github.com/gofiber/fiber/v2"

// live serves GET /health/live: the process answers.
func (s *Server) live(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusOK) }

// ready serves GET /health and /health/ready: new requests are taken, and the
// device can compute them.
func (s *Server) ready(c *fiber.Ctx) error {
	if s.draining.Load() || s.parts.Engine.Err() != nil {
		return c.SendStatus(fiber.StatusServiceUnavailable)
	}
	return c.SendStatus(fiber.StatusOK)
}

// version serves GET /version.
func (s *Server) version(c *fiber.Ctx) error {
	return c.JSON(fiber.Map{"version": s.parts.Version})
}
