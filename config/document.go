package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxFileBytes = 1 << 20
	// maxNodes bounds the values read, aliases counted each time they are used:
	// nine lines of aliases can stand for a billion values.
	maxNodes = 100_000
	maxDepth = 32
)

// document reads one YAML file. It is a koanf.Parser that knows which keys
// exist and where each value stands.
type document struct {
	file string
	// scratch takes each value once, to find the bad ones with their lines.
	scratch Config
	origins map[string]Origin
	plugins []Plugin
	faults  *faultList
	nodes   int
}

// Unmarshal gives the values as text, in maps below their sections.
func (d *document) Unmarshal(data []byte) (map[string]any, error) {
	values := make(map[string]any)
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes; a configuration has at most %d", d.file, len(data), maxFileBytes)
	}
	root := d.parse(data)
	if root == nil {
		return values, nil
	}
	d.scratch = Default()
	keys := append(schema(d.scratch.keys()), key{name: "plugins"})
	d.mapping(root, keys, "", "", func(k *key, n *yaml.Node) {
		if k.name == "plugins" {
			if n = d.resolve(n, k.name); n != nil {
				d.readPlugins(n)
			}
			return
		}
		if text, ok := d.text(k, n, ""); ok && d.set(k, n, "", text) {
			put(values, k.name, text)
		}
	})
	return values, nil
}

// Marshal is not needed: Config.Print writes with origins.
func (d *document) Marshal(map[string]any) ([]byte, error) { return nil, errors.ErrUnsupported }

// put places text at a dotted name.
func put(values map[string]any, name, text string) {
	section, leaf := cutLast(name)
	if section != "" {
		for _, part := range strings.Split(section, ".") {
			inner, ok := values[part].(map[string]any)
			if !ok {
				inner = make(map[string]any)
				values[part] = inner
			}
			values = inner
		}
	}
	values[leaf] = text
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parse gives the root of the one YAML document, nil if it is empty or bad.
func (d *document) parse(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := decoder.Decode(&doc)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		origin := Origin{Layer: LayerFile, Place: d.file}
		text := err.Error()
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			origin.Line, _ = strconv.Atoi(m[1]) // no digits: the file as a whole, 0
			text = text[len(m[0]):]
		}
		d.faults.add(origin, "", "not YAML: %s", text)
		return nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err != io.EOF {
		d.fault(&second, "", "the file has a second document or is cut off; write one, without ---")
		return nil
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return nil
	}
	return root
}

func (d *document) origin(n *yaml.Node) Origin {
	return Origin{Layer: LayerFile, Place: d.file, Line: n.Line}
}

func (d *document) fault(n *yaml.Node, name, format string, args ...any) {
	d.faults.add(d.origin(n), name, format, args...)
}

// resolve follows an alias and counts the node. It is nil, with a fault, when
// the file stands for too much.
func (d *document) resolve(n *yaml.Node, name string) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.fault(n, name, "the file stands for more than %d values; use fewer aliases", maxNodes)
		}
		return nil
	}
	return n
}

// mapping reads a section: leaf is called for each known key, with its value
// unresolved. at is the name of the mapping's root with a dot, for messages;
// section the path below it with a dot.
func (d *document) mapping(n *yaml.Node, keys schema, at, section string, leaf func(*key, *yaml.Node)) {
	name := strings.TrimSuffix(at+section, ".")
	if n = d.resolve(n, name); n == nil {
		return
	}
	if n.Tag == "!!null" && n.Kind == yaml.ScalarNode {
		return // every key of the section is commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fault(n, name, "%s is not a mapping; %s", describe(n), keys.members(strings.TrimSuffix(section, ".")))
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.fault(k, name, "%s is not a key; a key is a word", describe(k))
			continue
		}
		full := section + k.Value
		if first, ok := lines[k.Value]; ok {
			d.fault(k, at+full, "the key stands there twice, first in line %d", first)
			continue
		}
		lines[k.Value] = k.Line
		found := keys.find(full)
		switch {
		case k.Tag == "!!merge":
			d.fault(k, name, "merge keys (<<) are not supported; write the keys out")
		case strings.Contains(k.Value, "."):
			d.fault(k, at+full, "unknown key; a dot in a key is no level, write the levels as mappings")
		case found != nil:
			d.origins[at+full] = d.origin(k)
			leaf(found, value)
		case keys.isSection(full):
			d.mapping(value, keys, at, full+".", leaf)
		default:
			d.fault(k, at+clip(full), "%s", keys.unknown(full))
		}
	}
}

// text is a scalar, or a list as its words between commas.
func (d *document) text(k *key, n *yaml.Node, at string) (string, bool) {
	if n = d.resolve(n, at+k.name); n == nil {
		return "", false
	}
	isList := false
	switch k.value.(type) {
	case listValue, numbersValue:
		isList = true
	}
	_, hasNull := k.value.(policyValue) // null is a policy
	switch {
	case hasNull && n.Value == "null":
		return n.Value, true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		d.fault(n, at+k.name, "no value; leave the key out to take the default, %s", orNone(k.value.String()))
		return "", false
	case n.Kind == yaml.ScalarNode && !isList:
		return n.Value, true
	case n.Kind == yaml.SequenceNode && isList:
		words := make([]string, 0, len(n.Content))
		for _, item := range n.Content {
			if item = d.resolve(item, at+k.name); item == nil {
				return "", false
			}
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || strings.Contains(item.Value, ",") {
				d.fault(item, at+k.name, "%s is not a name; a name is text without commas", describe(item))
				return "", false
			}
			words = append(words, item.Value)
		}
		return strings.Join(words, ","), true
	case isList:
		d.fault(n, at+k.name, "%s is not a list; write [a, b]", describe(n))
	default:
		d.fault(n, at+k.name, "%s is not one value (%s)", describe(n), k.value.Type())
	}
	return "", false
}

// errSecret stands for the fault of a secret value.
var errSecret = errors.New("the value is not well formed; it is not shown")

// set writes text to the key's place, or reports what is wrong with it.
func (d *document) set(k *key, n *yaml.Node, at, text string) bool {
	if err := k.value.Set(text); err != nil {
		if k.secret {
			err = errSecret
		}
		d.fault(n, at+k.name, "%v", err)
		return false
	}
	return true
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// describe names what stands at a node.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "null"
	}
	return strconv.Quote(clip(n.Value))
}

// clip shortens what is repeated in a message.
func clip(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
