package jinja

import (
	"strconv"
	"strings"
)

// format is str.format with the fields {}, {0} and {name}, each with !s or !r if need be.
func (r *run) format(s string, a args) Value {
	w := &writer{r: r}
	next := int64(0)
	for {
		at := strings.IndexAny(s, "{}")
		if at < 0 || r.err != nil {
			w.add(s)
			return string(w.text)
		}
		w.add(s[:at])
		brace := s[at : at+1]
		s = s[at+1:]
		if strings.HasPrefix(s, brace) { // twice for itself
			w.add(brace)
			s = s[1:]
			continue
		}
		end := strings.IndexByte(s, '}')
		if brace == "}" || end < 0 {
			return r.fail("format has a single %q", brace)
		}
		w.field(s[:end], a, &next)
		s = s[end+1:]
	}
}

// field writes the argument that a field names, or the next one.
func (w *writer) field(field string, a args, next *int64) {
	name, quoted := strings.CutSuffix(field, "!r")
	name = strings.TrimSuffix(name, "!s")
	if strings.ContainsAny(name, "!:.[{") {
		w.r.fail("format has the field {%.40s}; chat templates take {}, {0} and {name}", field)
		return
	}
	v, found := a.named.get(name)
	if i, err := strconv.ParseInt(name, 10, 64); name == "" || err == nil {
		if name == "" {
			i = *next
			*next++
		}
		if found = i >= 0 && i < int64(len(a.list)); found {
			v = a.list[i]
		}
	}
	switch {
	case !found:
		w.r.fail("format has the field {%.40s}, which no argument is for", field)
	case quoted:
		w.repr(v)
	default:
		w.add(w.r.print(v))
	}
}
