package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Layer is one of the places that configuration comes from.
type Layer uint8

// Layers; a later one wins.
const (
	LayerDefault Layer = iota
	LayerFile
	LayerEnvironment
	LayerFlag
)

// Origin says where a value was given.
type Origin struct {
	Layer Layer
	// Place is the file, the variable or the flag.
	Place string
	// Line is the file's line, from 1; 0 is the file as a whole.
	Line int
}

// String gives the place as a message names it: wasmeter.yaml:3,
// WASMETER_SERVER__PORT, --port, default.
func (o Origin) String() string {
	switch {
	case o.Layer == LayerDefault:
		return "default"
	case o.Layer == LayerFile && o.Line > 0:
		return o.Place + ":" + strconv.Itoa(o.Line)
	}
	return o.Place
}

// Origin says where the value of a key came from. Keys of plugins are
// plugins[0].path. A key that nobody gave has the origin of what it stands in.
func (c *Config) Origin(name string) Origin {
	for name != "" {
		if o, ok := c.origins[name]; ok {
			return o
		}
		name, _ = cutLast(name)
	}
	return Origin{}
}

// Print writes the configuration as a YAML file that says the same; with
// origins, each line ends with where its value came from. Secrets, and what is
// handed to plugins, are not shown.
func (c *Config) Print(w io.Writer, origins bool) error {
	p := printer{c: c, origins: origins}
	p.keys(c.keys(), "", 0)
	if len(c.Plugins) > 0 {
		p.line("", "plugins:")
	}
	for i := range c.Plugins {
		at := fmt.Sprintf("plugins[%d]", i)
		p.line(at, fmt.Sprintf("  - name: %s", quoted(c.Plugins[i].Name)))
		p.keys(c.Plugins[i].keys()[1:], at+".", 4)
		p.metrics(c.Plugins[i].Metrics, at)
		if len(c.Plugins[i].Spec.Config) > 0 {
			p.line(at+".config", "    # config: not shown")
		}
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

type printer struct {
	c       *Config
	origins bool
	text    strings.Builder
}

// keys writes keys below their sections. In a list of mappings, prefix is the
// item's name with a dot; its unset keys are left out.
func (p *printer) keys(keys []key, prefix string, indent int) {
	var open []string // the sections that the last line stands in
	for _, k := range keys {
		text := k.value.String()
		if prefix != "" && (text == "" || text == "false") {
			continue
		}
		path := strings.Split(k.name, ".")
		sections := path[:len(path)-1]
		for i, s := range sections {
			if i < len(open) && open[i] == s {
				continue
			}
			open = open[:i]
			p.line("", strings.Repeat(" ", indent+2*i)+s+":")
			open = append(open, s)
		}
		open = open[:len(sections)]
		p.line(prefix+k.name, strings.Repeat(" ", indent+2*len(sections))+path[len(path)-1]+": "+shown(&k, text))
	}
}

// shown is a value as it stands in YAML.
func shown(k *key, text string) string {
	if k.secret && text != "" {
		return `"" # set, not shown`
	}
	if _, ok := k.value.(listValue); ok {
		if text == "" {
			return "[]"
		}
		words := strings.Split(text, ",")
		for i := range words {
			words[i] = quoted(words[i])
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	return quoted(text)
}

// quoted puts text between quotes unless it means the same without, in every
// YAML version.
func quoted(text string) string {
	special := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._/+-", r))
	}
	if text == "" || text == "off" || strings.EqualFold(text, "null") || text[0] == '-' || text[0] == '.' || strings.IndexFunc(text, special) >= 0 {
		return strconv.Quote(text)
	}
	return text
}

// line writes one line; name is the key whose origin it shows, "" for none.
func (p *printer) line(name, text string) {
	if p.origins && name != "" {
		text = fmt.Sprintf("%-48s # %s", text, p.c.Origin(name))
	}
	p.text.WriteString(text + "\n")
}
