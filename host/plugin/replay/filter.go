package replay

import (
	"strings"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Filter chooses requests. Its zero value is for all.
type Filter struct {
	// Since and Until are the first arrival and the first one too late; zero:
	// none.
	Since, Until time.Time
	// Tenants and Models are names, or beginnings and *; none: all.
	Tenants, Models []string
}

func (f *Filter) covers(frame *plugin.Frame) bool {
	at := arrival(frame)
	return (f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until)) &&
		listed(f.Tenants, frame.Tenant) && listed(f.Models, frame.Model)
}

func listed(patterns []string, name string) bool {
	for _, p := range patterns {
		if prefix, open := strings.CutSuffix(p, "*"); p == name || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return len(patterns) == 0
}

func arrival(frame *plugin.Frame) time.Time { return time.Unix(0, int64(frame.ArrivalUnixNS)) }
