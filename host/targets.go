package host

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/wasmeter/wasmeter/host/openai"
)

// Headers by which a request says how fast it should be, in milliseconds. The
// names are those of llm-d's router.
const (
	headerTTFT = "x-slo-ttft-ms" // to the first token
	headerTPOT = "x-slo-tpot-ms" // for each token after it
)

// maxTargetMS is an hour: a longer target is a mistake in the unit.
const maxTargetMS = 3_600_000

// targets are the times that a request asks for, 0 for none. The engine does
// not know them; plugins do.
type targets struct{ ttftMS, tpotMS uint32 }

// targetsOf reads the headers of a request.
func targetsOf(c *fiber.Ctx) (targets, error) {
	var t targets
	for _, h := range [...]struct {
		name string
		to   *uint32
	}{{headerTTFT, &t.ttftMS}, {headerTPOT, &t.tpotMS}} {
		text := c.Get(h.name)
		if text == "" {
			continue
		}
		ms, ok := parseMillis(text)
		if !ok {
			return targets{}, openai.InvalidRequest(h.name, fmt.Sprintf(
				"the header %s is %.40q; send milliseconds in 0 … %d, such as 250, or leave it out", h.name, text, maxTargetMS))
		}
		*h.to = ms
	}
	return t, nil
}

// parseMillis reads whole milliseconds. Routers compute with fractions, so that
// one may follow; it is rounded up, which makes no target harder to meet.
func parseMillis(text string) (uint32, bool) {
	whole, fraction, decimal := strings.Cut(text, ".")
	if !digits(whole) || decimal && !digits(fraction) {
		return 0, false
	}
	ms, err := strconv.ParseUint(whole, 10, 32)
	if strings.Trim(fraction, "0") != "" {
		ms++
	}
	return uint32(ms), err == nil && ms <= maxTargetMS
}

// digits tells whether s is decimal digits, and not too many for a number.
func digits(s string) bool {
	const most = 20
	return s != "" && len(s) <= most && strings.Trim(s, "0123456789") == ""
}
