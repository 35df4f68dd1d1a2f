package cases

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// Result is what a plugin made of one call, as it is expected or as it was.
type Result struct {
	// Called is false where the host does not call the plugin: it denied the
	// request before.
	Called bool
	// Failure is the kind of a call that failed, "" for one that did not.
	Failure string
	Deny    *plugin.Deny
	// Fields and Usage are JSON objects, nil if there is nothing.
	Fields, Usage []byte
	Headers       []plugin.Header
	Carry         string // given by this call
	Document      []byte // nil if it is as it was
	Records       []plugin.Record
	KV            []plugin.Write
	Metrics       []Sample
	Logs          []Line

	// Fuel is what the call used, Why what its failure said. Neither is compared
	// with what is expected.
	Fuel int64
	Why  string
}

// Sample is a value of a metric that the configuration declares.
type Sample struct {
	Name   string
	Labels []plugin.Label // each with its one value
	Value  float64
}

// Line is a line of the plugin's log.
type Line struct{ Level, Text string }

// levels of the import log, by their values.
var levels = []string{"debug", "info", "warn", "error"}

var failureKinds = []string{
	string(plugin.FailureTrap), string(plugin.FailureOutOfFuel), string(plugin.FailureMemory),
	string(plugin.FailureInit), string(plugin.FailureBadResult), string(plugin.FailureDeniedKey),
}

// result reads an expectation. What it does not name is expected not to happen.
func (r *reader) result(n *yaml.Node, at string) Result {
	e := Result{Called: true}
	object := func(place *[]byte) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			if n.Kind != yaml.MappingNode {
				r.fault(n, at, "%s is not a mapping", describe(n))
				return
			}
			*place = r.json(n, at)
		}
	}
	r.mapping(n, at, fields{
		"called":   func(n *yaml.Node, at string) { e.Called = r.boolean(n, at) },
		"failure":  func(n *yaml.Node, at string) { e.Failure = failureKinds[r.word(n, at, failureKinds)] },
		"deny":     func(n *yaml.Node, at string) { e.Deny = r.deny(n, at) },
		"fields":   object(&e.Fields),
		"usage":    object(&e.Usage),
		"document": object(&e.Document),
		"headers": func(n *yaml.Node, at string) {
			r.pairs(n, at, func(k, v *yaml.Node, at string) {
				e.Headers = append(e.Headers, plugin.Header{Name: k.Value, Value: r.text(v, at)})
			})
		},
		"carry": func(n *yaml.Node, at string) { e.Carry = r.text(n, at) },
		"records": func(n *yaml.Node, at string) {
			r.list(n, at, func(n *yaml.Node, at string) {
				var record plugin.Record
				r.mapping(n, at, fields{
					"kind": func(n *yaml.Node, at string) { record.Kind = int32(r.signed(n, at, 32)) },
					"data": object(&record.Data),
				})
				e.Records = append(e.Records, record)
			})
		},
		"kv": func(n *yaml.Node, at string) {
			r.list(n, at, func(n *yaml.Node, at string) { e.KV = append(e.KV, r.write(n, at)) })
		},
		"metrics": func(n *yaml.Node, at string) {
			r.list(n, at, func(n *yaml.Node, at string) { e.Metrics = append(e.Metrics, r.sample(n, at)) })
		},
		"logs": func(n *yaml.Node, at string) {
			r.list(n, at, func(n *yaml.Node, at string) {
				var line Line
				r.mapping(n, at, fields{
					"level": func(n *yaml.Node, at string) { line.Level = levels[r.word(n, at, levels)] },
					"text":  func(n *yaml.Node, at string) { line.Text = r.text(n, at) },
				})
				e.Logs = append(e.Logs, line)
			})
		},
	})
	return e
}

func (r *reader) deny(n *yaml.Node, at string) *plugin.Deny {
	d := &plugin.Deny{}
	r.mapping(n, at, fields{
		"status":      func(n *yaml.Node, at string) { d.Status = int(r.integer(n, at, 599)) },
		"code":        func(n *yaml.Node, at string) { d.Code = r.text(n, at) },
		"message":     func(n *yaml.Node, at string) { d.Message = r.text(n, at) },
		"retry_after": func(n *yaml.Node, at string) { d.RetryAfter = int(r.integer(n, at, math.MaxInt32)) },
	})
	return d
}

// write reads {set: key, value: …} or {add: key, delta: …}.
func (r *reader) write(n *yaml.Node, at string) plugin.Write {
	var w plugin.Write
	named := 0
	key := func(counter bool) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			named++
			w.Key, w.Counter = []byte(r.text(n, at)), counter
		}
	}
	r.mapping(n, at, fields{
		"set":   key(false),
		"add":   key(true),
		"value": func(n *yaml.Node, at string) { w.Value = []byte(r.text(n, at)) },
		"delta": func(n *yaml.Node, at string) { w.Delta = r.signed(n, at, 64) },
		"ttl_s": func(n *yaml.Node, at string) { w.TTL = seconds(r.integer(n, at, math.MaxUint32)) },
	})
	if named != 1 && n.Kind == yaml.MappingNode {
		r.fault(n, at, "write {set: key, value: …} or {add: key, delta: …}")
	}
	return w
}

func (r *reader) sample(n *yaml.Node, at string) Sample {
	var s Sample
	r.mapping(n, at, fields{
		"name": func(n *yaml.Node, at string) { s.Name = r.text(n, at) },
		"labels": func(n *yaml.Node, at string) {
			r.pairs(n, at, func(k, v *yaml.Node, at string) {
				s.Labels = append(s.Labels, plugin.Label{Name: k.Value, Values: []string{r.text(v, at)}})
			})
		},
		"value": func(n *yaml.Node, at string) {
			v, err := strconv.ParseFloat(n.Value, 64)
			if n.Kind != yaml.ScalarNode || err != nil || v-v != 0 {
				r.fault(n, at, "%s is not a finite number", describe(n))
			}
			s.Value = v
		},
	})
	return s
}
