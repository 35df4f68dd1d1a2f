package plugin

import (
	"fmt"
	"strings"
)

const (
	maxGrantedFields = 64
	maxFieldName     = 64
)

// Grants are what a plugin may do beyond computing. Everything starts
// refused.
type Grants struct {
	// Fields are the top-level members the plugin may add to an answer. A
	// name that ends in * grants every name with that prefix: x_*.
	Fields []string
	// UsageExtend are members it may add to usage.
	UsageExtend []string
	// Headers are response headers it may set, x-….
	Headers []string
	Emit    bool // append billing and audit records
	Metrics bool // count and observe declared metrics
	Clock   bool // read the wall clock

	KVRead  bool
	KVWrite bool

	ReadRequest   bool // see the request document
	ReadResponse  bool // see the response document
	ContentEgress bool // read bodies and also emit, log or write
	Rewrite       bool
	Deny          bool
	Admission     bool
}

// validate refuses grants this host can't honour and fields that would
// collide with the wire's own.
func (g *Grants) validate(reserved map[string]bool) []error {
	var faults []error
	for _, later := range []struct {
		key string
		set bool
	}{
		{"usage_extend", len(g.UsageExtend) > 0},
		{"headers", len(g.Headers) > 0},
		{"emit", g.Emit},
		{"metrics", g.Metrics},
		{"clock", g.Clock},
		{"kv.read", g.KVRead},
		{"kv.write", g.KVWrite},
		{"read.request", g.ReadRequest},
		{"read.response", g.ReadResponse},
		{"content_egress", g.ContentEgress},
		{"rewrite", g.Rewrite},
		{"deny", g.Deny},
		{"admission", g.Admission},
	} {
		if later.set {
			faults = append(faults, fmt.Errorf("grants.%s: not available yet", later.key))
		}
	}
	if len(g.Fields) > maxGrantedFields {
		faults = append(faults, fmt.Errorf("grants.fields: %d names; at most %d", len(g.Fields), maxGrantedFields))
	}
	for _, name := range g.Fields {
		if err := checkGrantedField(name, reserved); err != nil {
			faults = append(faults, fmt.Errorf("grants.fields: %w", err))
		}
	}
	return faults
}

func checkGrantedField(name string, reserved map[string]bool) error {
	if reserved[name] {
		return fmt.Errorf("%q is a member of the API itself; choose another name, such as x_%s", name, name)
	}
	prefix := strings.TrimSuffix(name, "*")
	if prefix == "" || len(name) > maxFieldName {
		return fmt.Errorf("%q; a name has 1 to %d characters, and * alone is no name", name, maxFieldName)
	}
	for i := range len(prefix) {
		if c := prefix[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '*' {
			return fmt.Errorf("%q holds %q; use printable ASCII without quotes, backslashes and spaces, and * only at the end", name, c)
		}
	}
	return nil
}

// grantsField reports whether a pattern of Grants.Fields covers name.
func grantsField(pattern string, name []byte) bool {
	if prefix, found := strings.CutSuffix(pattern, "*"); found {
		return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
	}
	return string(name) == pattern
}

// fieldsOverlap reports whether two patterns cover a common name.
func fieldsOverlap(a, b string) bool {
	aPrefix, aWild := strings.CutSuffix(a, "*")
	bPrefix, bWild := strings.CutSuffix(b, "*")
	switch {
	case aWild && bWild:
		return strings.HasPrefix(aPrefix, bPrefix) || strings.HasPrefix(bPrefix, aPrefix)
	case aWild:
		return strings.HasPrefix(b, aPrefix)
	case bWild:
		return strings.HasPrefix(a, bPrefix)
	}
	return a == b
}
