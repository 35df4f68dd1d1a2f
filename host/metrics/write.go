package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
)

// Write writes all series in the text format that accept, the header of a
// scrape, asks for: OpenMetrics or, by default, Prometheus' own. It returns the
// content type.
func (m *Metrics) Write(w io.Writer, accept string) (contentType string, err error) {
	families, err := m.registry.Gather()
	if err != nil {
		return "", fmt.Errorf("gather metrics: %w", err)
	}
	format := expfmt.NegotiateAccept(http.Header{"Accept": {accept}}, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtText)
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return "", fmt.Errorf("write metric %s: %w", f.GetName(), err)
		}
	}
	if c, ok := encoder.(expfmt.Closer); ok {
		if err := c.Close(); err != nil {
			return "", fmt.Errorf("end metrics: %w", err)
		}
	}
	out := text.Bytes()
	if format.FormatType() == expfmt.TypeTextPlain {
		out = pointBounds(make([]byte, 0, len(out)+len(out)/16), out)
	}
	if _, err := w.Write(out); err != nil {
		return "", fmt.Errorf("send metrics: %w", err)
	}
	return string(format), nil
}

// pointBounds copies a text of samples and writes whole bucket bounds with a
// decimal point, le="1.0" for le="1". OpenMetrics and vLLM write them so, and a
// bound that is spelt in two ways is two series to a query.
func pointBounds(dst, text []byte) []byte {
	// A label's name follows a brace or a comma. Quotes inside values are escaped,
	// so that no value can look like it.
	name := []byte(`le="`)
	for {
		i := bytes.Index(text, name)
		if i < 0 {
			return append(dst, text...)
		}
		label := i > 0 && (text[i-1] == '{' || text[i-1] == ',')
		end := i + len(name)
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		dst = append(dst, text[:end]...)
		if label && end > i+len(name) && bytes.HasPrefix(text[end:], []byte{'"'}) {
			dst = append(dst, ".0"...)
		}
		text = text[end:]
	}
}
