package plugin

import (
	"errors"
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
	// Headers are response headers it may set, x-…, in lower case.
	Headers []string
	Emit    bool // append billing and audit records
	Metrics bool // count and observe declared metrics
	Clock   bool // read the wall clock

	KVRead  bool
	KVWrite bool

	ReadRequest   bool // see the request document
	ReadResponse  bool // see the response document
	ContentEgress bool // read bodies and also emit, log or write
	Rewrite       bool // replace documents and chunks
	Deny          bool // refuse requests
	Admission     bool // set a request's priority and deadline
}

// validate refuses names that would collide with the wire's own.
func (g *Grants) validate(reserved *reservedNames) []error {
	var faults []error
	for _, list := range []struct {
		key      string
		names    []string
		reserved map[string]bool
		check    func(string) error
	}{
		{"fields", g.Fields, reserved.fields, checkGrantedField},
		{"usage_extend", g.UsageExtend, reserved.usage, checkGrantedField},
		{"headers", g.Headers, reserved.headers, checkGrantedHeader},
	} {
		if len(list.names) > maxGrantedFields {
			faults = append(faults, fmt.Errorf("grants.%s: %d names; at most %d", list.key, len(list.names), maxGrantedFields))
		}
		for _, name := range list.names {
			err := list.check(name)
			if list.reserved[name] {
				err = fmt.Errorf("%q is a member of the API itself; choose another name, such as x_%s", name, name)
				if list.key == "headers" {
					err = fmt.Errorf("%q is a header of the server's own; choose another name", name)
				}
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("grants.%s: %w", list.key, err))
			}
		}
	}
	return faults
}

// ErrNotGranted: the plugin does, or is about to do, what it may not.
var ErrNotGranted = errors.New("not granted")

// notGranted says what it is, and which key would grant it.
type notGranted struct{ reason string }

func (e *notGranted) Error() string        { return e.reason }
func (e *notGranted) Is(target error) bool { return target == ErrNotGranted }

func denied(format string, args ...any) error { return &notGranted{fmt.Sprintf(format, args...)} }

// permits reports whether a configuration key of an import is granted.
func (g *Grants) permits(key string) bool {
	switch key {
	case "":
		return true
	case "emit":
		return g.Emit
	case "metrics":
		return g.Metrics
	case "clock":
		return g.Clock
	case "kv.read":
		return g.KVRead
	case "kv.write":
		return g.KVWrite
	}
	return false
}

// confined reports whether the plugin reads bodies and nothing of them may
// leave it but in the answer itself.
func (g *Grants) confined() bool { return (g.ReadRequest || g.ReadResponse) && !g.ContentEgress }

func checkGrantedField(name string) error {
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

func checkGrantedHeader(name string) error {
	prefix := strings.TrimSuffix(name, "*")
	if !isHeaderName(prefix) || len(name) > maxFieldName {
		return fmt.Errorf("%q; use x- and up to %d of a-z, 0-9 and -, with * only at the end", name, maxFieldName)
	}
	return nil
}

func isHeaderName(name string) bool {
	return len(name) > len("x-") && name[:2] == "x-" && !strings.ContainsFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	})
}

// covers reports whether a pattern, a name or a prefix and *, covers name.
func covers(pattern string, name []byte) bool {
	if prefix, found := strings.CutSuffix(pattern, "*"); found {
		return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
	}
	return string(name) == pattern
}

// overlap reports whether two patterns cover a common name.
func overlap(a, b string) bool {
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
