package host

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

// observe tells what became of each request. An error becomes its answer here
// already, so that its status is known.
func (s *Server) observe(c *fiber.Ctx) error {
	answered := s.parts.Observe.Answered
	if answered == nil {
		return c.Next()
	}
	begun := time.Now()
	if err := c.Next(); err != nil {
		if err := s.writeError(c, err); err != nil {
			return err
		}
	}
	status := c.Response().StatusCode()
	route := ""
	if status != fiber.StatusNotFound && status != fiber.StatusMethodNotAllowed {
		route = c.Route().Path // a pattern; on no match it would be the last middleware's
	}
	answered(route, utils.CopyString(c.Method()), status, time.Since(begun))
	return nil
}

// metrics serves GET /metrics.
func (s *Server) metrics(c *fiber.Ctx) error {
	var out bytes.Buffer
	contentType, err := s.parts.Observe.Scrape(&out, c.Get(fiber.HeaderAccept))
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(out.Bytes())
}
