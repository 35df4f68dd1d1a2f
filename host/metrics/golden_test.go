package metrics

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// meaningless are the series of the recorded answer that say nothing about this
// server: it has no flops estimate, no second cache, no images.
var meaningless = []string{
	"vllm:estimated_flops_per_gpu_total", "vllm:estimated_read_bytes_per_gpu_total", "vllm:estimated_write_bytes_per_gpu_total",
	"vllm:external_prefix_cache_queries_total", "vllm:external_prefix_cache_hits_total",
	"vllm:mm_cache_queries_total", "vllm:mm_cache_hits_total",
	"http_request_size_bytes", "http_response_size_bytes",
}

// recorded is the answer of a running vLLM; testdata/README.md tells more.
func recorded(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/vllm-metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// labelSets lists the label sets of a family, sorted, and without what is only
// in the recorded server's configuration or traffic.
func labelSets(f *dto.MetricFamily) []string {
	var sets []string
	for _, m := range f.Metric {
		var pairs []string
		for _, p := range m.Label {
			switch {
			case f.GetName() == "vllm:cache_config_info" && p.GetName() != "engine":
				continue
			case strings.HasPrefix(f.GetName(), "http_"):
				pairs = append(pairs, p.GetName())
			default:
				pairs = append(pairs, p.GetName()+"="+p.GetValue())
			}
		}
		sets = append(sets, strings.Join(pairs, ","))
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

func bounds(f *dto.MetricFamily) []float64 {
	var b []float64
	for _, bucket := range f.Metric[0].GetHistogram().GetBucket() {
		b = append(b, bucket.GetUpperBound())
	}
	return b
}

// TestSeriesOfVLLM compares names, types, labels, label values and bounds with
// the recorded answer.
func TestSeriesOfVLLM(t *testing.T) {
	m, _ := tiny(t, nil)
	m.Request("/v1/models", "GET", 200, time.Millisecond)
	ours, theirs := parse(t, scrape(t, m)), parse(t, recorded(t))
	for name, want := range theirs {
		got := ours[name]
		if slices.Contains(meaningless, name) {
			if got != nil {
				t.Errorf("%s is here, and listed as meaningless", name)
			}
			continue
		}
		if got == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if got.GetType() != want.GetType() {
			t.Errorf("%s is a %v, want a %v", name, got.GetType(), want.GetType())
		}
		if g, w := labelSets(got), labelSets(want); !slices.Equal(g, w) {
			t.Errorf("%s has the labels %q, want %q", name, g, w)
		}
		if g, w := bounds(got), bounds(want); !slices.Equal(g, w) {
			t.Errorf("%s has the bounds %v, want %v", name, g, w)
		}
		if got.GetHelp() == "" {
			t.Errorf("%s has no help text", name)
		}
	}
	for name := range ours {
		if strings.HasPrefix(name, "vllm:") && theirs[name] == nil {
			t.Errorf("%s is not vLLM's", name)
		}
	}
}

// TestBoundsAreSpeltAlike: the text of a bound is part of a series' identity.
func TestBoundsAreSpeltAlike(t *testing.T) {
	bound := regexp.MustCompile(`le="[^"]*"`)
	m, _ := tiny(t, nil)
	spelt := func(text string) []string {
		var all []string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "vllm:") {
				if b := bound.FindString(line); b != "" {
					all = append(all, b)
				}
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	got, want := spelt(scrape(t, m)), spelt(recorded(t))
	if !slices.Equal(got, want) {
		t.Errorf("bounds %q, want %q", got, want)
	}
	if len(want) < 30 {
		t.Errorf("only %d bounds were compared", len(want))
	}
}

// TestCacheConfigInfo: routers take the cache's size from these labels.
func TestCacheConfigInfo(t *testing.T) {
	m, _ := tiny(t, nil)
	got := parse(t, scrape(t, m))["vllm:cache_config_info"].Metric[0]
	want := map[string]string{"engine": "0", "block_size": "16", "num_gpu_blocks": "32", "kv_cache_size_tokens": "512", "enable_prefix_caching": "True"}
	for _, p := range got.Label {
		if want[p.GetName()] != p.GetValue() {
			t.Errorf("label %s is %q, want %q", p.GetName(), p.GetValue(), want[p.GetName()])
		}
		delete(want, p.GetName())
	}
	if len(want) != 0 || got.GetGauge().GetValue() != 1 {
		t.Errorf("labels %v are missing, value %v", want, got.GetGauge().GetValue())
	}
}

// TestRequestTokensBuckets has the bounds that vLLM 0.32 computes for these
// lengths.
func TestRequestTokensBuckets(t *testing.T) {
	for context, want := range map[int][]float64{
		1:       {1},
		2:       {1, 2},
		9:       {1, 2, 5},
		10:      {1, 2, 5, 10},
		128:     {1, 2, 5, 10, 20, 50, 100},
		512:     {1, 2, 5, 10, 20, 50, 100, 200, 500},
		1000:    {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		4096:    {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
		32768:   {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000},
		131072:  {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000},
		1048576: {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000},
	} {
		if got := requestTokensBuckets(context); !slices.Equal(got, want) {
			t.Errorf("bounds up to %d are %v, want %v", context, got, want)
		}
	}
	if got := requestTokensBuckets(math.MaxInt32); len(got) != 29 || got[28] != 2e9 {
		t.Errorf("bounds up to 2³¹ are %v, want 29 up to 2·10⁹", got)
	}
}
