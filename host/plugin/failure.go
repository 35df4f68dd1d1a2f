package plugin

import "fmt"

// FailureKind classes what can go wrong with a call; it is the value of a
// bounded metric label.
type FailureKind string

// Failure kinds of ABI v1.
const (
	FailureTrap          FailureKind = "trap"
	FailureOutOfFuel     FailureKind = "out_of_fuel"
	FailureMemory        FailureKind = "memory"
	FailureTimeout       FailureKind = "timeout"
	FailureBadResult     FailureKind = "bad_result"
	FailureDeniedKey     FailureKind = "denied_key"
	FailurePoolExhausted FailureKind = "pool_exhausted"
	FailureInit          FailureKind = "init"
	FailureBreakerOpen   FailureKind = "breaker_open"
	FailureDisabled      FailureKind = "disabled"
)

// Failure is a call that gave no usable result. Chain.Shape returns it for a
// plugin whose policy is Closed.
type Failure struct {
	Plugin string
	Hook   Hook
	Kind   FailureKind
	Err    error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("plugin %q: %s: %s: %v", f.Plugin, f.Hook, f.Kind, f.Err)
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Policy says what becomes of the answer when a plugin fails.
type Policy uint8

// Policies.
const (
	Open   Policy = iota // the answer goes out without the plugin's fields
	Closed               // the answer is refused
	Null                 // the granted fields are null; a pattern such as x_* stays out
)

// ParsePolicy reads a policy as it stands in a configuration.
func ParsePolicy(text string) (Policy, error) {
	switch text {
	case "open":
		return Open, nil
	case "closed":
		return Closed, nil
	case "null":
		return Null, nil
	}
	return Open, fmt.Errorf("on_error: %q is unknown; use open, closed or null", text)
}

// String gives the policy as it stands in a configuration.
func (p Policy) String() string {
	switch p {
	case Closed:
		return "closed"
	case Null:
		return "null"
	}
	return "open"
}
