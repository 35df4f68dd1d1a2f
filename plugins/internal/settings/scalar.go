package settings

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Bool reads true or false.
func Bool(to *bool) Value {
	return Value{allowed: "true or false", scalar: func(v jsontext.Value) bool {
		*to = v.Kind() == 't'
		return v.Kind() == 't' || v.Kind() == 'f'
	}}
}

// Uint reads a whole number, least … most.
func Uint(to *uint64, least, most uint64) Value {
	allowed := "a whole number in " + strconv.FormatUint(least, 10) + " … " + strconv.FormatUint(most, 10)
	return Value{allowed: allowed, scalar: func(v jsontext.Value) bool {
		n, err := strconv.ParseUint(string(v), 10, 64)
		if err != nil || n < least || n > most {
			return false
		}
		*to = n
		return true
	}}
}

// Text reads a string that good accepts; allowed says which those are.
func Text(to *string, allowed string, good func(string) bool) Value {
	return Value{allowed: allowed, scalar: func(v jsontext.Value) bool {
		if v.Kind() != '"' {
			return false
		}
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil || !good(string(text)) {
			return false
		}
		*to = string(text)
		return true
	}}
}

// Word reads one of some words, and gives its place among them.
func Word[T ~uint8](to *T, words ...string) Value {
	allowed := "one of "
	for i, w := range words {
		if i > 0 {
			allowed += ", "
		}
		allowed += w
	}
	var text string
	read := Text(&text, allowed, func(string) bool { return true })
	return Value{allowed: allowed, scalar: func(v jsontext.Value) bool {
		if !read.scalar(v) {
			return false
		}
		for i, w := range words {
			if w == text {
				*to = T(i)
				return true
			}
		}
		return false
	}}
}

// IsField reports whether a name can be granted as an answer's member.
func IsField(name string) bool {
	const most = 64
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '*' {
			return false
		}
	}
	return name != "" && len(name) <= most
}
