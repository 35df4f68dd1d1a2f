package metrics

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestWriteFormats(t *testing.T) {
	m, _ := tiny(t, nil)
	for _, c := range []struct{ name, accept, contentType, last string }{
		{"nothing asked", "", "text/plain; version=0.0.4; charset=utf-8", ""},
		{"anything", "*/*;q=0.1", "text/plain; version=0.0.4; charset=utf-8", ""},
		{"a browser", "text/html,*/html", "text/plain; version=0.0.4; charset=utf-8", ""},
		{"OpenMetrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics-text; version=1.0.0; charset=utf-8", "# EOF\n"},
		{"protobuf is not offered", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "text/plain; version=0.0.4; charset=utf-8", ""},
		{"nonsense", ";;;=,\x00" + strings.Repeat(",;q", 4000), "text/plain; version=0.0.4; charset=utf-8", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			got, err := m.Write(&b, c.accept)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, c.contentType) {
				t.Errorf("content type %q, want %q", got, c.contentType)
			}
			if !strings.HasSuffix(b.String(), c.last) || c.last == "" && strings.Contains(b.String(), "# EOF") {
				t.Errorf("the end is %q", b.String()[b.Len()-40:])
			}
			if !strings.Contains(b.String(), `vllm:iteration_tokens_total_bucket{engine="0",model_name="tiny",le="16384.0"} 0`) {
				t.Errorf("a bucket is missing or spelt in another way:\n%s", b.String())
			}
		})
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteSaysThatTheClientIsGone(t *testing.T) {
	m, _ := tiny(t, nil)
	if _, err := m.Write(brokenWriter{}, ""); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want the writer's", err)
	}
}

// FuzzPointBounds gives a histogram a label of any text: the official parser must
// read the same before and after, and every bound must have a point.
func FuzzPointBounds(f *testing.F) {
	for _, value := range []string{"", "metrics", `le="1"`, `x,le="1"} 5`, `,le=`, "a\nb_bucket{le=\"5\"} 1\n", `\`, `{le=`, `le=le="`} {
		f.Add(value, []byte(value))
	}
	f.Fuzz(func(t *testing.T, value string, raw []byte) {
		// Any bytes may come out longer, but never other.
		pointless := func(b []byte) string { return strings.ReplaceAll(string(b), `.0"`, `"`) }
		if got := pointBounds(nil, raw); pointless(got) != pointless(raw) {
			t.Errorf("%q became %q", raw, got)
		}
		registry := prometheus.NewRegistry()
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "h", Help: "Help.", Buckets: []float64{0.5, 1, 20, 1e9}}, []string{"alle"})
		if err := registry.Register(h); err != nil {
			return
		}
		observer, err := h.GetMetricWithLabelValues(value)
		if err != nil {
			return // not text
		}
		observer.Observe(3)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := expfmt.MetricFamilyToText(&text, families[0]); err != nil {
			t.Fatal(err)
		}
		pointed := pointBounds(nil, text.Bytes())
		before, errBefore := read(&text)
		after, errAfter := read(bytes.NewReader(pointed))
		if (errBefore == nil) != (errAfter == nil) || before != after {
			t.Errorf("label %q: read %s (%v) before, and after %s (%v)", value, before, errBefore, after, errAfter)
		}
		for _, bound := range []string{`le="0.5"} 0`, `le="1.0"} 0`, `le="20.0"} 1`, `le="1e+09"} 1`, `le="+Inf"} 1`} {
			if !bytes.Contains(pointed, []byte(bound)) {
				t.Errorf("label %q: no %s in %s", value, bound, pointed)
			}
		}
	})
}

func read(r io.Reader) (string, error) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(r)
	if err != nil || families["h"] == nil {
		return "", err
	}
	return families["h"].String(), nil
}

func BenchmarkWrite(b *testing.B) {
	m, _ := tiny(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Write(io.Discard, ""); err != nil {
			b.Fatal(err)
		}
	}
}
