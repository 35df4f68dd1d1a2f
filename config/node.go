package config

import "go.yaml.in/yaml/v3"

// ReadPlugin reads a plugin as it stands in the list plugins, from a value of
// another file than a configuration, which faults then name. What may be left out
// has its default.
func ReadPlugin(file string, n *yaml.Node) (Plugin, error) {
	d := &document{file: file, origins: make(map[string]Origin), faults: &faultList{}}
	p := d.readPlugin(n, "plugin")
	return p, d.faults.err()
}

// ReadJSON gives a value of a YAML file as the JSON that a plugin's config would
// be: in the order in which it is written, with the digits of its numbers.
func ReadJSON(file string, n *yaml.Node) ([]byte, error) {
	d := &document{file: file, origins: make(map[string]Origin), faults: &faultList{}}
	text := d.appendJSON(nil, n, "", 0)
	return text, d.faults.err()
}
