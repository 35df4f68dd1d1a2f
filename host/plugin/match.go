package plugin

import (
	"errors"
	"fmt"
	"slices"
)

// Match says which requests a plugin is for. An empty list matches all; a
// name that ends in * matches every name that begins so.
type Match struct {
	Models, Tenants []string
	Endpoints       []string // chat, completions, responses
}

const maxMatchNames = 1024

var endpointNames = [...]string{EndpointChat: "chat", EndpointCompletions: "completions", EndpointResponses: "responses"}

// String gives the endpoint as it stands in a configuration.
func (e Endpoint) String() string {
	if int(e) < len(endpointNames) && endpointNames[e] != "" {
		return endpointNames[e]
	}
	return "none"
}

// Validate collects the faults of a match.
func (m *Match) Validate() error {
	var faults []error
	for key, names := range map[string][]string{"models": m.Models, "tenants": m.Tenants, "endpoints": m.Endpoints} {
		if len(names) > maxMatchNames {
			faults = append(faults, fmt.Errorf("match.%s: %d names; at most %d", key, len(names), maxMatchNames))
		}
		if slices.Contains(names, "") {
			faults = append(faults, fmt.Errorf("match.%s: an empty name; * matches every one", key))
		}
	}
	for _, name := range m.Endpoints {
		if !slices.Contains(endpointNames[EndpointChat:], name) {
			faults = append(faults, fmt.Errorf("match.endpoints: %q is not one of chat, completions, responses", name))
		}
	}
	return errors.Join(faults...)
}

// covers reports whether the plugin is for such a request.
func (m *Match) covers(model, tenant string, endpoint Endpoint) bool {
	return matches(m.Models, model) && matches(m.Tenants, tenant) && matches(m.Endpoints, endpoint.String())
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if n := len(p) - 1; p == name || n >= 0 && p[n] == '*' && len(name) >= n && name[:n] == p[:n] {
			return true
		}
	}
	return len(patterns) == 0
}

// meets reports whether some request may be covered by both: the lists of
// one kind have no name in common only if both are set.
func (m *Match) meets(other *Match) bool {
	return meet(m.Models, other.Models) && meet(m.Tenants, other.Tenants) && meet(m.Endpoints, other.Endpoints)
}

func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return overlap(x, y) })
	})
}
