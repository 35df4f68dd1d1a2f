package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// requests are the series of the HTTP side.
type requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	// all has the fine bounds that duration, multiplied by its labels, has not.
	all prometheus.Histogram
}

func newRequests(f promauto.Factory) *requests {
	return &requests{
		total: f.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total",
			Help: "HTTP requests answered, by route, method and class of status.",
		}, []string{"handler", "method", "status"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "Time to answer an HTTP request, by route.",
			Buckets: httpDurationBuckets,
		}, []string{"handler", "method"}),
		all: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "http_request_duration_highr_seconds",
			Help:    "Time to answer an HTTP request, with finer bounds.",
			Buckets: httpDurationHighBuckets,
		}),
	}
}

// Request counts an HTTP request that took d to answer. handler is the pattern
// of the route, or empty where none matched: the path as sent would make as many
// series as clients like. It may be called from any goroutine.
func (m *Metrics) Request(handler, method string, status int, d time.Duration) {
	if handler == "" {
		handler = "none"
	}
	method = knownMethod(method)
	m.requests.total.WithLabelValues(handler, method, statusClass(status)).Inc()
	m.requests.duration.WithLabelValues(handler, method).Observe(d.Seconds())
	m.requests.all.Observe(d.Seconds())
}

// knownMethod is the method, or "other" for what a client has invented.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
		return method
	}
	return "other"
}

var statusClasses = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// statusClass is 2xx for 200, and none for what is no status.
func statusClass(status int) string {
	if status < 100 || status > 599 {
		return statusClasses[0]
	}
	return statusClasses[status/100]
}
