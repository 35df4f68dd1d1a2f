package cases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/wasmeter/wasmeter/config"
)

const (
	maxFileBytes = 1 << 20
	maxFaults    = 20
)

// reader reads one file strictly. Its faults name the line.
type reader struct {
	file   string
	faults []error
}

func (r *reader) fault(n *yaml.Node, at, format string, args ...any) {
	if len(r.faults) == maxFaults {
		return
	}
	place := fmt.Sprintf("%s:%d: ", r.file, n.Line)
	if at != "" {
		place += at + ": "
	}
	r.faults = append(r.faults, errors.New(place+fmt.Sprintf(format, args...)))
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parse gives the root of the file's one document, nil if there is none.
func (r *reader) parse(data []byte) *yaml.Node {
	if len(data) > maxFileBytes {
		r.faults = append(r.faults, fmt.Errorf("%s: %d bytes; a case has at most %d", r.file, len(data), maxFileBytes))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err == io.EOF {
		r.faults = append(r.faults, fmt.Errorf("%s: the file is empty", r.file))
		return nil
	} else if err != nil {
		place, text := r.file, err.Error()
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			text = text[len(m[0]):]
			if m[1] != "" {
				place += ":" + m[1]
			}
		}
		r.faults = append(r.faults, fmt.Errorf("%s: not YAML: %s", place, text))
		return nil
	}
	if err := decoder.Decode(&second); err != io.EOF {
		r.faults = append(r.faults, fmt.Errorf("%s: it has a second document or is cut off; a case is a file of its own", r.file))
		return nil
	}
	if !r.plain(doc.Content[0]) {
		return nil
	}
	return doc.Content[0]
}

// plain refuses aliases: nine lines of them can stand for a billion values.
func (r *reader) plain(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		r.fault(n, "", "aliases (*%s) are not supported; write the value out", n.Value)
		return false
	}
	for _, inner := range n.Content {
		if !r.plain(inner) {
			return false
		}
	}
	return true
}

// fields are the keys of a mapping and what reads their values.
type fields map[string]func(n *yaml.Node, at string)

// mapping reads a mapping whose keys are known. at is its name, for messages.
func (r *reader) mapping(n *yaml.Node, at string, known fields) {
	r.pairs(n, at, func(k, v *yaml.Node, name string) {
		read := known[k.Value]
		if read == nil {
			names := slices.Sorted(maps.Keys(known))
			if near := config.Nearest(k.Value, names); near != "" {
				r.fault(k, name, "unknown key; did you mean %s?", near)
			} else {
				r.fault(k, name, "unknown key; known are %s", strings.Join(names, ", "))
			}
			return
		}
		read(v, name)
	})
}

// pairs reads a mapping of any keys; name is a key with the mapping's own name
// before it.
func (r *reader) pairs(n *yaml.Node, at string, each func(k, v *yaml.Node, name string)) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, at, "%s is not a mapping", describe(n))
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			r.fault(k, at, "%s is not a key; a key is a word", describe(k))
			continue
		}
		name := clip(k.Value)
		if at != "" {
			name = at + "." + name
		}
		if first, twice := lines[k.Value]; twice {
			r.fault(k, name, "the key stands there twice, first in line %d", first)
			continue
		}
		lines[k.Value] = k.Line
		each(k, v, name)
	}
}

// list reads the items of a list.
func (r *reader) list(n *yaml.Node, at string, each func(n *yaml.Node, at string)) {
	if n.Kind != yaml.SequenceNode {
		r.fault(n, at, "%s is not a list", describe(n))
		return
	}
	for i, item := range n.Content {
		each(item, fmt.Sprintf("%s[%d]", at, i))
	}
}

// text reads a scalar; !!binary gives bytes that are no text.
func (r *reader) text(n *yaml.Node, at string) string {
	var text string
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		r.fault(n, at, "%s is not text; write \"\" for none", describe(n))
	case n.Tag == "!!binary":
		if err := n.Decode(&text); err != nil {
			r.fault(n, at, "not base64")
		}
	default:
		text = n.Value
	}
	return text
}

// integer reads a whole number of 0 … most; digits may be grouped as 1_000.
func (r *reader) integer(n *yaml.Node, at string, most uint64) uint64 {
	v, err := strconv.ParseUint(strings.ReplaceAll(n.Value, "_", ""), 10, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v > most {
		r.fault(n, at, "%s is not a whole number in 0 … %d", describe(n), most)
		return 0
	}
	return v
}

// signed reads a whole number of that many bits.
func (r *reader) signed(n *yaml.Node, at string, bits int) int64 {
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 10, bits)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.fault(n, at, "%s is not a whole number of %d bits", describe(n), bits)
	}
	return v
}

func (r *reader) boolean(n *yaml.Node, at string) bool {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
		r.fault(n, at, "%s is not true or false", describe(n))
	}
	return n.Value == "true"
}

// word reads one of several words and gives its place among them.
func (r *reader) word(n *yaml.Node, at string, words []string) int {
	i := slices.Index(words, n.Value)
	if n.Kind != yaml.ScalarNode || i < 0 || n.Value == "" {
		known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
		r.fault(n, at, "%s is not one of %s", describe(n), strings.Join(known, ", "))
		return 0
	}
	return i
}

// json reads a value as JSON text.
func (r *reader) json(n *yaml.Node, at string) []byte {
	text, err := config.ReadJSON(r.file, n)
	if err != nil {
		r.fault(n, at, "%v", err)
		return nil
	}
	return text
}

// document reads a body: text as it is, anything else as JSON.
func (r *reader) document(n *yaml.Node, at string) []byte {
	if n.Kind == yaml.ScalarNode {
		return []byte(r.text(n, at))
	}
	return r.json(n, at)
}

// describe names what stands at a node.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
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
