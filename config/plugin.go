package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// Plugin is one plugin of the chain: an item of the list plugins, which only
// the file can set.
type Plugin struct {
	plugin.Spec
	// Builtin names a plugin that is part of the program, instead of path: one
	// of the folders of plugins.
	Builtin string
}

// newPlugin has the defaults of a plugin.
func newPlugin() Plugin {
	return Plugin{Spec: plugin.Spec{MemoryLimit: 16 << 20, Fuel: 5_000_000}}
}

// policyValue is what becomes of an answer when its plugin fails.
type policyValue struct{ to *plugin.Policy }

func (v policyValue) Set(text string) error {
	policy, err := plugin.ParsePolicy(text)
	if err != nil {
		return fmt.Errorf("%q is not one of open, closed, null", text)
	}
	*v.to = policy
	return nil
}
func (v policyValue) String() string { return v.to.String() }
func (v policyValue) Type() string   { return "open|closed|null" }

// isolationValue is what a call may leave in an instance for the next.
type isolationValue struct{ to *plugin.Isolation }

func (v isolationValue) Set(text string) error {
	isolation, err := plugin.ParseIsolation(text)
	if err != nil {
		return fmt.Errorf("%q is not one of pooled, reset, fresh", text)
	}
	*v.to = isolation
	return nil
}
func (v isolationValue) String() string { return v.to.String() }
func (v isolationValue) Type() string   { return "pooled|reset|fresh" }

// keys lists the keys of a plugin but config, which is any mapping, and
// metrics, which is a list. The name stands first.
func (p *Plugin) keys() []key {
	g := &p.Grants
	return []key{
		{name: "name", value: textValue{&p.Name}},
		{name: "path", value: textValue{&p.Path}},
		{name: "builtin", value: choice(&p.Builtin, plugins.Names()...)},
		{name: "sha256", value: textValue{&p.SHA256}},
		{name: "on_error", value: policyValue{&p.OnError}},
		{name: "override", value: boolValue{&p.Override}},
		{name: "isolation", value: isolationValue{&p.Isolation}},
		{name: "memory_limit", value: sizeValue{&p.MemoryLimit}},
		{name: "fuel", value: unitsValue{&p.Fuel}},

		{name: "grants.fields", value: listValue{&g.Fields}},
		{name: "grants.usage_extend", value: listValue{&g.UsageExtend}},
		{name: "grants.headers", value: listValue{&g.Headers}},
		{name: "grants.emit", value: boolValue{&g.Emit}},
		{name: "grants.metrics", value: boolValue{&g.Metrics}},
		{name: "grants.clock", value: boolValue{&g.Clock}},
		{name: "grants.kv.read", value: boolValue{&g.KVRead}},
		{name: "grants.kv.write", value: boolValue{&g.KVWrite}},
		{name: "grants.read.request", value: boolValue{&g.ReadRequest}},
		{name: "grants.read.response", value: boolValue{&g.ReadResponse}},
		{name: "grants.content_egress", value: boolValue{&g.ContentEgress}},
		{name: "grants.rewrite", value: boolValue{&g.Rewrite}},
		{name: "grants.deny", value: boolValue{&g.Deny}},
		{name: "grants.admission", value: boolValue{&g.Admission}},

		{name: "match.models", value: listValue{&p.Match.Models}},
		{name: "match.tenants", value: listValue{&p.Match.Tenants}},
		{name: "match.endpoints", value: listValue{&p.Match.Endpoints}},
	}
}

// maxPlugins bounds the chain: each plugin is called for each answer.
const maxPlugins = 64

// readPlugins reads the list of plugins.
func (d *document) readPlugins(n *yaml.Node) {
	if n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fault(n, "plugins", "%s is not a list; write - {name: metrics, builtin: metrics, …}", describe(n))
		return
	}
	if len(n.Content) > maxPlugins {
		d.fault(n, "plugins", "%d plugins; at most %d", len(n.Content), maxPlugins)
		return
	}
	for i, item := range n.Content {
		d.plugins = append(d.plugins, d.readPlugin(item, fmt.Sprintf("plugins[%d]", i)))
	}
}

// readPlugin reads one plugin, which messages call at.
func (d *document) readPlugin(n *yaml.Node, at string) Plugin {
	p := newPlugin()
	d.origins[at] = d.origin(n)
	keys := append(schema(p.keys()), key{name: "config"}, key{name: "metrics"})
	fuelled := false
	d.mapping(n, keys, at+".", "", func(k *key, n *yaml.Node) {
		fuelled = fuelled || k.name == "fuel"
		switch k.name {
		case "config":
			p.Config = d.readPluginConfig(n, at+".config")
		case "metrics":
			p.Metrics = d.readPluginMetrics(n, at+".metrics")
		default:
			d.read(k, n, at+".")
		}
	})
	if b, found := plugins.Find(p.Builtin); found && b.Fuel > 0 && !fuelled {
		p.Fuel = b.Fuel
	}
	return p
}

func (d *document) readPluginConfig(n *yaml.Node, name string) []byte {
	if n = d.resolve(n, name); n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, name, "%s is not a mapping", describe(n))
		return nil
	}
	return d.appendJSON(nil, n, name, 0)
}

// read sets a key to its value.
func (d *document) read(k *key, n *yaml.Node, at string) {
	if text, ok := d.text(k, n, at); ok {
		d.set(k, n, at, text)
	}
}

// validatePlugins collects the faults that concern the configuration alone;
// loading a plugin finds the others.
func validatePlugins(list []Plugin) []error {
	var faults []error
	seen := make(map[string]bool)
	for i := range list {
		p := &list[i]
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("plugins[%d].%s", i, fmt.Sprintf(format, args...)))
		}
		if p.Name == "" {
			fault("name: empty; give the plugin a name of a-z, 0-9, - and _")
		}
		if seen[p.Name] {
			fault("name: %q stands there twice", p.Name)
		}
		seen[p.Name] = true
		if (p.Path == "") == (p.Builtin == "") {
			fault("path: give a plugin either a path or a builtin, such as builtin: metrics")
		}
		for _, k := range p.keys() {
			if err := k.available(); err != nil {
				fault("%v", err)
			}
		}
	}
	return faults
}
