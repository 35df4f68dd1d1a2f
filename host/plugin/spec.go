package plugin

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	defaultMemoryLimit = 16 << 20
	maxMemoryLimit     = 4 << 30 // all that wasm32 can address
	maxConfigBytes     = 1 << 20
)

// Spec is one plugin as the configuration describes it.
type Spec struct {
	// Name stands in logs, errors and metric labels: 1 to 64 of a-z, 0-9,
	// - and _.
	Name string
	// Path is the module's file.
	Path string
	// Wasm is a module built into this program, instead of Path.
	Wasm []byte
	// SHA256 pins the module, in hex. Empty: not pinned.
	SHA256 string
	// Config is handed to the plugin's init as it is: a JSON object. Empty: {}.
	Config []byte
	Grants Grants
	// UsualGrants are those that the plugin works with, in the configuration's
	// words. They are told when one is missing, and grant nothing.
	UsualGrants string
	// OnError says what becomes of an answer when the plugin fails.
	OnError Policy
	// MemoryLimit bounds the linear memory of one instance, in bytes, in
	// whole pages of 64 KiB. 0: 16 MiB. A Go plugin needs at least 4 MiB.
	MemoryLimit int64
	// Fuel is what one call may use, in the units of package meter, up to
	// 10^12. 0: 5,000,000, which lasts 20 ms at most.
	Fuel int64
	// Override lets the plugin replace fields that an earlier plugin of the
	// chain is granted too.
	Override bool
	// Isolation is what one call may leave in an instance for another.
	Isolation Isolation
	// Match restricts the plugin to some requests.
	Match Match
	// Metrics are those that the plugin may count in, by their place here.
	Metrics []Metric
}

// validate reports every fault of the spec.
func (s *Spec) validate(reserved *reservedNames) error {
	faults := s.Grants.validate(reserved)
	faults = append(faults, validateMetrics(s.Metrics)...)
	if err := s.Match.Validate(); err != nil {
		faults = append(faults, err)
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !validName(s.Name) {
		fault("name: %q; use 1 to 64 of a-z, 0-9, - and _", s.Name)
	}
	if (s.Path == "") == (s.Wasm == nil) {
		fault("path, builtin: give exactly one of the two")
	}
	if digest, err := hex.DecodeString(s.SHA256); s.SHA256 != "" && (err != nil || len(digest) != 32) {
		fault("sha256: %q is not 64 hex digits", s.SHA256)
	}
	if len(s.Config) > maxConfigBytes {
		fault("config: %d bytes; at most %d", len(s.Config), maxConfigBytes)
	} else if len(s.Config) > 0 && !isObject(s.Config) {
		fault("config: not a strict JSON object")
	}
	if s.OnError > Null {
		fault("on_error: policy %d is unknown; use open, closed or null", s.OnError)
	}
	if s.MemoryLimit != 0 && (s.MemoryLimit < wasmPage || s.MemoryLimit > maxMemoryLimit || s.MemoryLimit%wasmPage != 0) {
		fault("memory_limit: %d bytes; use a multiple of 64 KiB up to 4 GiB, or 0 for 16 MiB", s.MemoryLimit)
	}
	if s.Fuel < 0 || s.Fuel > maxFuel {
		fault("fuel: %d units; use 1 to %d, or 0 for %d", s.Fuel, int64(maxFuel), int64(defaultFuel))
	}
	if s.Isolation > Fresh {
		fault("isolation: %d is unknown; use pooled, reset or fresh", s.Isolation)
	}
	return errors.Join(faults...)
}

// explain adds to a refusal for want of a grant what the plugin works with.
func (s *Spec) explain(err error) error {
	if s.UsualGrants == "" || !errors.Is(err, ErrNotGranted) {
		return err
	}
	return fmt.Errorf("%w; give it what it may do, all that it asks for is\n    %s", err, s.UsualGrants)
}

func (s *Spec) memoryLimit() int64 {
	if s.MemoryLimit == 0 {
		return defaultMemoryLimit
	}
	return s.MemoryLimit
}

func (s *Spec) fuel() int64 {
	if s.Fuel == 0 {
		return defaultFuel
	}
	return s.Fuel
}

func validName(name string) bool {
	for i := range len(name) {
		if c := name[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func isObject(doc []byte) bool {
	first := bytes.TrimLeft(doc, " \t\r\n")
	return len(first) > 0 && first[0] == '{' && jsontext.Value(doc).IsValid()
}
