package cases

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// Case is one file: one or more requests, and what a plugin makes of them.
type Case struct {
	File  string
	About string
	// Plugin says how the plugin is configured; nil: as its folder says.
	Plugin *config.Plugin
	// MaxFuel is what each call may use, of which the plugin's own fuel stops it;
	// 0: that alone.
	MaxFuel int64
	// Refused is text of the message with which the plugin is refused at load; ""
	// for a plugin that is not.
	Refused string
	// KV is what the plugin's keys hold at the beginning.
	KV    []plugin.Write
	Steps []Step

	text []byte // of the file
}

// Step is one call of a hook.
type Step struct {
	Hook  plugin.Hook
	Frame plugin.Frame
	// Begins says that the step is the first of a request.
	Begins bool
	// NowUnixNS is the time of day.
	NowUnixNS int64
	Expect    Result

	// Where the step and its expectation stand, for Update. Columns count from 1;
	// expectLine is 0 without an expectation.
	line, column, expectLine int
	flow                     bool // written as {hook: …}, which Update leaves alone
}

// maxSteps bounds a case.
const maxSteps = 10_000

// defaultNow is the time of day of a request that has no arrival: 2000-01-01.
const defaultNow = 946_684_800_000_000_000

// Read reads a case. file is its name in messages; the error joins all faults.
func Read(file string, text []byte) (*Case, error) {
	r := &reader{file: file}
	c := &Case{File: file, text: text}
	if root := r.parse(text); root != nil {
		r.readCase(root, c)
	}
	return c, errors.Join(r.faults...)
}

func (r *reader) readCase(root *yaml.Node, c *Case) {
	// What all requests begin with.
	frame := plugin.Frame{Endpoint: plugin.EndpointChat, N: 1, Prompts: 1}
	var steps *yaml.Node
	r.mapping(root, "", fields{
		"about":    func(n *yaml.Node, at string) { c.About = r.text(n, at) },
		"plugin":   func(n *yaml.Node, at string) { c.Plugin = r.plugin(n, at) },
		"max_fuel": func(n *yaml.Node, at string) { c.MaxFuel = int64(r.integer(n, at, math.MaxInt64)) },
		"refused":  func(n *yaml.Node, at string) { c.Refused = r.text(n, at) },
		"kv":       func(n *yaml.Node, at string) { c.KV = r.keys(n, at) },
		"frame":    func(n *yaml.Node, at string) { r.frame(n, at, &frame) },
		"steps":    func(n *yaml.Node, _ string) { steps = n },
	})
	switch {
	case steps == nil && c.Refused == "":
		r.fault(root, "steps", "missing; list the hooks that are called, such as - {hook: shape}")
		return
	case steps != nil && c.Refused != "":
		r.fault(steps, "steps", "a plugin that is refused is not called; leave out steps or refused")
		return
	case steps == nil:
		return
	}
	if len(steps.Content) > maxSteps {
		r.fault(steps, "steps", "%d steps; at most %d", len(steps.Content), maxSteps)
		return
	}
	seen, now := frame, int64(0)
	r.list(steps, "steps", func(n *yaml.Node, at string) {
		s := r.step(n, at, frame, seen, now)
		s.Begins = s.Begins || len(c.Steps) == 0
		seen, now = s.Frame, s.NowUnixNS
		if s.NowUnixNS == 0 {
			s.NowUnixNS = defaultNow
			if f := &s.Frame; f.ArrivalUnixNS > 0 && f.ArrivalUnixNS < math.MaxInt64 {
				s.NowUnixNS = int64(f.ArrivalUnixNS)
			}
		}
		c.Steps = append(c.Steps, s)
	})
	if len(c.Steps) == 0 && len(r.faults) == 0 {
		r.fault(steps, "steps", "empty; list the hooks that are called")
	}
}

// step reads a step. Its frame is that of the step before, seen, or first if it
// begins a request, with what the step says.
func (r *reader) step(n *yaml.Node, at string, first, seen plugin.Frame, now int64) Step {
	s := Step{line: n.Line, column: n.Column, flow: n.Style&yaml.FlowStyle != 0, NowUnixNS: now, Expect: Result{Called: true}}
	var frame *yaml.Node
	r.mapping(n, at, fields{
		"hook":         func(n *yaml.Node, at string) { s.Hook = plugin.Hook(r.word(n, at, hooks)) },
		"next_request": func(n *yaml.Node, at string) { s.Begins = r.boolean(n, at) },
		"now_unix_ns":  func(n *yaml.Node, at string) { s.NowUnixNS = int64(r.integer(n, at, math.MaxInt64)) },
		"frame":        func(n *yaml.Node, _ string) { frame = n },
		"document":     func(n *yaml.Node, at string) { s.Frame.Document = r.document(n, at) },
		"expect":       func(n *yaml.Node, at string) { s.Expect, s.expectLine = r.result(n, at), n.Line },
	})
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "expect" {
			s.expectLine = n.Content[i].Line
		}
	}
	document := s.Frame.Document
	if s.Frame = seen; s.Begins {
		s.Frame = first
	}
	if frame != nil {
		r.frame(frame, at+".frame", &s.Frame)
	}
	s.Frame.Document = document
	if s.Hook == 0 && n.Kind == yaml.MappingNode && len(r.faults) == 0 {
		r.fault(n, at+".hook", "missing; it is one of request, chunk, shape, finish")
	}
	return s
}

// plugin reads how the plugin is configured.
func (r *reader) plugin(n *yaml.Node, at string) *config.Plugin {
	p, err := config.ReadPlugin(r.file, n)
	switch {
	case err != nil:
		r.faults = append(r.faults, err)
	case p.Path != "" || p.Builtin != "" || p.SHA256 != "":
		r.fault(n, at, "path, builtin and sha256 have no place in a case: it tests the folder's module")
	}
	return &p
}

// What a plugin's key and value may have, by the ABI.
const (
	maxKeyBytes   = 256
	maxValueBytes = 4 << 10
)

// keys reads the values of keys: text, or a number for a counter.
func (r *reader) keys(n *yaml.Node, at string) []plugin.Write {
	var writes []plugin.Write
	r.pairs(n, at, func(k, v *yaml.Node, at string) {
		w := plugin.Write{Key: []byte(r.text(k, at))}
		if v.Tag == "!!int" {
			w.Value = binary.LittleEndian.AppendUint64(nil, uint64(r.signed(v, at, 64)))
		} else {
			w.Value = []byte(r.text(v, at))
		}
		if len(w.Key) > maxKeyBytes || len(w.Value) > maxValueBytes {
			r.fault(v, at, "a key of %d and a value of %d bytes; at most %d and %d", len(w.Key), len(w.Value), maxKeyBytes, maxValueBytes)
		}
		writes = append(writes, w)
	})
	return writes
}

// where names a step in messages.
func (c *Case) where(step int) string {
	return fmt.Sprintf("step %d, %s", step+1, c.Steps[step].Hook)
}
