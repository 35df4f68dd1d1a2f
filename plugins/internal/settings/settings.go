// Package settings reads the configuration that the server hands to a plugin in
// its init: a JSON object, described by a table of its members. The table is
// the whole of what is accepted; everything else is refused with its place and
// what is allowed there, all faults together.
package settings

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member that an object may have, or must if Required.
type Member struct {
	Name     string
	Value    Value
	Required bool
}

// Members are all that an object may have.
type Members []Member

// Value reads one value into the place that it was made for. It is a scalar, an
// object or a list, and of these has what it needs.
type Value struct {
	allowed string // what may stand there: "a whole number in 0 … 9"
	scalar  func(v jsontext.Value) bool

	members Members
	check   func() error // of what the whole object says; may be nil

	isList bool
	most   int
	item   func() Value // makes room for one more; its place is made again by each call
}

// Object reads an object. check looks at what its members say together; nil
// looks at nothing.
func Object(m Members, check func() error) Value {
	return Value{allowed: "an object", members: m, check: check}
}

// List reads a list of at most so many items into to; item gives the value that
// reads one.
func List[T any](to *[]T, most int, item func(*T) Value) Value {
	return Value{allowed: "a list of at most " + strconv.Itoa(most), isList: true, most: most, item: func() Value {
		*to = append(*to, *new(T))
		return item(&(*to)[len(*to)-1])
	}}
}

// mostFaults bounds what is told of a configuration.
const mostFaults = 10

// reader walks through a configuration and gathers its faults.
type reader struct {
	decoder *jsontext.Decoder
	faults  []error
}

// Read reads a configuration. check is that of Object. The error names every
// fault, up to ten.
func Read(config []byte, m Members, check func() error) error {
	r := reader{decoder: jsontext.NewDecoder(bytes.NewReader(config))}
	if err := r.value("", Object(m, check)); err != nil {
		return err
	}
	return errors.Join(r.faults...)
}

func (r *reader) fault(path, text string) {
	if path == "" {
		path = "config"
	}
	if len(r.faults) < mostFaults {
		r.faults = append(r.faults, errors.New(path+": "+text))
	}
}

// value reads the value that comes next. The error is that of broken JSON,
// which ends the reading; faults of values do not.
func (r *reader) value(path string, v Value) error {
	kind := r.decoder.PeekKind()
	switch {
	case v.scalar == nil && !v.isList && kind == '{':
		return r.object(path, v)
	case v.isList && kind == '[':
		return r.list(path, v)
	}
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return err
	}
	if v.scalar == nil || !v.scalar(raw) {
		r.fault(path, clip(string(raw))+" is not "+v.allowed)
	}
	return nil
}

func (r *reader) object(path string, v Value) error {
	if _, err := r.decoder.ReadToken(); err != nil { // the brace
		return err
	}
	at := path
	if at != "" {
		at += "."
	}
	seen, good := make([]bool, len(v.members)), len(r.faults)
	for r.decoder.PeekKind() != '}' {
		name, err := r.decoder.ReadToken()
		if err != nil {
			return err
		}
		key := name.String() // the next read takes the token's place
		i := v.members.index(key)
		if i < 0 {
			r.fault(at+clip(key), "unknown member; use "+v.members.names())
			if err := r.decoder.SkipValue(); err != nil {
				return err
			}
			continue
		}
		seen[i] = true
		if err := r.value(at+key, v.members[i].Value); err != nil {
			return err
		}
	}
	for i, m := range v.members {
		if m.Required && !seen[i] {
			r.fault(at+m.Name, "missing; write "+m.Value.allowed)
		}
	}
	if v.check != nil && len(r.faults) == good { // else it would judge what is not there
		if err := v.check(); err != nil {
			r.fault(path, err.Error())
		}
	}
	_, err := r.decoder.ReadToken()
	return err
}

func (r *reader) list(path string, v Value) error {
	if _, err := r.decoder.ReadToken(); err != nil { // the bracket
		return err
	}
	n := 0
	for ; r.decoder.PeekKind() != ']'; n++ {
		if n >= v.most {
			if err := r.decoder.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := r.value(path+"["+strconv.Itoa(n)+"]", v.item()); err != nil {
			return err
		}
	}
	if n > v.most {
		r.fault(path, strconv.Itoa(n)+" items; write "+v.allowed)
	}
	_, err := r.decoder.ReadToken()
	return err
}

func (m Members) index(name string) int {
	for i := range m {
		if m[i].Name == name {
			return i
		}
	}
	return -1
}

// names lists the members for people.
func (m Members) names() string {
	text := ""
	for i := range m {
		if i > 0 {
			text += ", "
		}
		text += m[i].Name
	}
	return text
}

// Paths lists every member that may stand anywhere, as "classes[].name"; a
// required one has ! at its end. A test compares them with the plugin's schema.
func (m Members) Paths() []string {
	var paths []string
	for i := range m {
		name := m[i].Name
		if m[i].Required {
			paths = append(paths, name+"!")
		} else {
			paths = append(paths, name)
		}
		v := m[i].Value
		for v.isList {
			name, v = name+"[]", v.item()
		}
		for _, p := range v.members.Paths() {
			paths = append(paths, name+"."+p)
		}
	}
	return paths
}

// clip shortens what a configuration says to what a message can hold.
func clip(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
