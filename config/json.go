package config

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// appendJSON writes a YAML value as the JSON that a plugin's init is given.
// Numbers keep their digits; what JSON cannot say is a fault.
func (d *document) appendJSON(dst []byte, n *yaml.Node, name string, depth int) []byte {
	if n = d.resolve(n, name); n == nil {
		return dst
	}
	if depth > maxDepth {
		d.fault(n, name, "nested deeper than %d", maxDepth)
		return dst
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.appendObject(dst, n, name, depth)
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = d.appendJSON(dst, item, name, depth+1)
		}
		return append(dst, ']')
	}
	return d.appendScalar(dst, n, name)
}

func (d *document) appendObject(dst []byte, n *yaml.Node, name string, depth int) []byte {
	dst = append(dst, '{')
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			d.fault(k, name, "%s is not a key that JSON has; write a word", describe(k))
			continue
		}
		if first, ok := lines[k.Value]; ok {
			d.fault(k, name+"."+clip(k.Value), "the key stands there twice, first in line %d", first)
			continue
		}
		if len(lines) > 0 {
			dst = append(dst, ',')
		}
		lines[k.Value] = k.Line
		dst = d.appendString(dst, k, name)
		dst = append(dst, ':')
		dst = d.appendJSON(dst, value, name, depth+1)
	}
	return append(dst, '}')
}

func (d *document) appendScalar(dst []byte, n *yaml.Node, name string) []byte {
	switch n.Tag {
	case "!!null":
		return append(dst, "null"...)
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err == nil {
			return strconv.AppendBool(dst, b)
		}
	case "!!int", "!!float":
		if literal := jsontext.Value(n.Value); literal.Kind() == '0' && literal.IsValid() {
			return append(dst, n.Value...)
		}
		var i int64
		if n.Tag == "!!int" && n.Decode(&i) == nil {
			return strconv.AppendInt(dst, i, 10)
		}
		var f float64
		if n.Tag == "!!float" && n.Decode(&f) == nil && f-f == 0 { // neither infinite nor NaN
			return strconv.AppendFloat(dst, f, 'g', -1, 64)
		}
	case "!!str", "!!timestamp":
		return d.appendString(dst, n, name)
	}
	d.fault(n, name, "%s (%s) is not a value that JSON has; write it between quotes", describe(n), n.Tag)
	return dst
}

func (d *document) appendString(dst []byte, n *yaml.Node, name string) []byte {
	quoted, err := jsontext.AppendQuote(dst, n.Value)
	if err != nil {
		d.fault(n, name, "%s is not valid UTF-8", describe(n))
		return dst
	}
	return quoted
}
