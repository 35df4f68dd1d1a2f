package cases

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// lineWidth is where a value is broken into several lines.
const lineWidth = 100

func seconds(n uint64) time.Duration { return time.Duration(n) * time.Second }

// lines writes a result as the YAML that stands below expect. Two results are the
// same if their lines are. JSON is written in its own order and digits, in one way.
func (e *Result) lines() []string {
	var out []string
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !e.Called {
		put("called: false")
	}
	if e.Failure != "" {
		put("failure: %s", e.Failure)
	}
	if d := e.Deny; d != nil {
		put("deny:")
		put("  status: %d", d.Status)
		put("  code: %s", scalar(d.Code))
		put("  message: %s", scalar(d.Message))
		if d.RetryAfter != 0 {
			put("  retry_after: %d", d.RetryAfter)
		}
	}
	out = append(out, section("fields", e.Fields)...)
	out = append(out, section("usage", e.Usage)...)
	if len(e.Headers) > 0 {
		put("headers:")
		for _, h := range e.Headers {
			put("  %s: %s", key(h.Name), scalar(h.Value))
		}
	}
	if e.Carry != "" {
		put("carry: %s", scalar(e.Carry))
	}
	out = append(out, section("document", e.Document)...)
	return append(out, e.effectLines()...)
}

// effectLines writes what the plugin asked for through its imports.
func (e *Result) effectLines() []string {
	var out []string
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	head := func(name string, n int) {
		if n > 0 {
			put("%s:", name)
		}
	}
	head("records", len(e.Records))
	for _, r := range e.Records {
		put("  - kind: %d", r.Kind)
		out = append(out, indent("    ", section("data", r.Data))...)
	}
	head("kv", len(e.KV))
	for _, w := range e.KV {
		line := fmt.Sprintf("set: %s, value: %s", scalar(string(w.Key)), scalar(string(w.Value)))
		if w.Counter {
			line = fmt.Sprintf("add: %s, delta: %d", scalar(string(w.Key)), w.Delta)
		}
		if w.TTL > 0 {
			line += fmt.Sprintf(", ttl_s: %d", w.TTL/time.Second)
		}
		put("  - {%s}", line)
	}
	head("metrics", len(e.Metrics))
	for _, s := range e.Metrics {
		line := "name: " + scalar(s.Name)
		if len(s.Labels) > 0 {
			labels := make([]string, len(s.Labels))
			for i, l := range s.Labels {
				labels[i] = key(l.Name) + ": " + scalar(l.Values[0])
			}
			line += ", labels: {" + strings.Join(labels, ", ") + "}"
		}
		put("  - {%s, value: %s}", line, strconv.FormatFloat(s.Value, 'g', -1, 64))
	}
	head("logs", len(e.Logs))
	for _, l := range e.Logs {
		put("  - {level: %s, text: %s}", l.Level, scalar(l.Text))
	}
	return out
}

// section writes a member that is a JSON object; nil is none.
func section(name string, object []byte) []string {
	if object == nil {
		return nil
	}
	v, err := parseJSON(object)
	if err != nil {
		return []string{name + ": " + scalar(string(object))} // a document that is no JSON
	}
	if name == "data" || len(v.members) == 0 {
		return v.block(name+":", len(name))
	}
	// One line a member, so that a difference is about few of them.
	out := []string{name + ":"}
	for _, m := range v.members {
		out = append(out, indent("  ", m.value.block(key(m.name)+":", len(name)))...)
	}
	return out
}

// value is one of JSON: literal is a scalar, or members or items are.
type value struct {
	kind    jsontext.Kind
	literal string
	members []member
	items   []value
}

type member struct {
	name  string
	value value
}

func parseJSON(text []byte) (value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	return parseValue(d)
}

func parseValue(d *jsontext.Decoder) (value, error) {
	token, err := d.ReadToken()
	if err != nil {
		return value{}, err
	}
	v := value{kind: token.Kind()}
	switch v.kind {
	case '{':
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return v, err
			}
			m := member{name: name.String()}
			if m.value, err = parseValue(d); err != nil {
				return v, err
			}
			v.members = append(v.members, m)
		}
		_, err = d.ReadToken()
	case '[':
		for d.PeekKind() != ']' {
			item, err := parseValue(d)
			if err != nil {
				return v, err
			}
			v.items = append(v.items, item)
		}
		_, err = d.ReadToken()
	case '"':
		v.literal = quote(token.String())
	default:
		v.literal = token.String()
	}
	return v, err
}

// flow writes a value in one line.
func (v *value) flow() string {
	var parts []string
	switch v.kind {
	case '{':
		for i := range v.members {
			parts = append(parts, quote(v.members[i].name)+": "+v.members[i].value.flow())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case '[':
		for i := range v.items {
			parts = append(parts, v.items[i].flow())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return v.literal
}

// block writes a value behind head, a key or a list's dash, in one line if it has
// room there. depth is about where it begins.
func (v *value) block(head string, depth int) []string {
	line := head + " " + v.flow()
	if len(line)+depth <= lineWidth || len(v.members)+len(v.items) == 0 {
		return []string{line}
	}
	out := []string{head}
	for i := range v.members {
		out = append(out, indent("  ", v.members[i].value.block(key(v.members[i].name)+":", depth+2))...)
	}
	for i := range v.items {
		out = append(out, "  - "+v.items[i].flow())
	}
	return out
}

func indent(by string, lines []string) []string {
	for i := range lines {
		lines[i] = by + lines[i]
	}
	return lines
}

// plainKey is a key that YAML reads as text without quotes.
var plainKey = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

func key(name string) string {
	switch name {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return quote(name)
	}
	if plainKey.MatchString(name) {
		return name
	}
	return quote(name)
}

// scalar writes text, or bytes that are none.
func scalar(text string) string {
	if !utf8.ValidString(text) {
		return `!!binary "` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`
	}
	return quote(text)
}

// quote writes text between quotes as both JSON and YAML read it. YAML takes some
// characters for line ends, and others for none at all.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || 0x7f <= r && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r&0xfffe == 0xfffe && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// sampleOf gives a sample in the words of the configuration.
func sampleOf(s plugin.Sample) Sample {
	out := Sample{Name: s.Metric.Name, Value: s.Value}
	for i, v := range s.Metric.LabelValues(s.Series) {
		out.Labels = append(out.Labels, plugin.Label{Name: s.Metric.Labels[i].Name, Values: []string{v}})
	}
	return out
}
