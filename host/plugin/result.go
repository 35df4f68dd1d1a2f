package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// resultRules are what one plugin's result documents may hold.
type resultRules struct {
	fields   []string        // Grants.Fields
	reserved map[string]bool // names of the wire, never granted
}

// deniedKey is a result that is sound and holds a member the plugin may not
// write.
type deniedKey struct{ reason string }

func (e *deniedKey) Error() string { return e.reason }

// appendShape checks the result document of a shape call and appends the
// members of its "fields" object to dst, separated by commas and with a
// leading comma if dst is not empty. On an error dst is returned as it was.
func (rules *resultRules) appendShape(dst, result []byte) ([]byte, error) {
	if err := checkDocument(result); err != nil {
		return dst, err
	}
	start := len(dst)
	for members := scanMembers(result); members.next(); {
		switch string(members.name) {
		case "fields":
			if members.value[0] != '{' {
				return dst[:start], fmt.Errorf("fields is %.20s; it is an object", members.value)
			}
			for fields := scanMembers(members.value); fields.next(); {
				if err := rules.checkField(fields.name); err != nil {
					return dst[:start], err
				}
				if len(dst) > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, '"')
				dst = append(dst, fields.name...)
				dst = append(dst, `":`...)
				dst = append(dst, fields.value...)
			}
		case "carry":
			if members.value[0] != '"' || len(members.value) > maxCarryBytes+len(`""`) {
				return dst[:start], fmt.Errorf("carry is a string of at most %d bytes", maxCarryBytes)
			}
		case "usage", "headers", "document", "deny", "priority", "deadline_ms":
			return dst[:start], &deniedKey{fmt.Sprintf("%q is not granted", members.name)}
		default:
			return dst[:start], fmt.Errorf("unknown member %q; a shape result has fields, usage, headers and carry", members.name)
		}
	}
	return dst, nil
}

func (rules *resultRules) checkField(name []byte) error {
	if bytes.IndexByte(name, '\\') >= 0 {
		return fmt.Errorf("field name %q holds a backslash", name)
	}
	if rules.reserved[string(name)] {
		return &deniedKey{fmt.Sprintf("field %q is a member of the API itself", name)}
	}
	for _, pattern := range rules.fields {
		if grantsField(pattern, name) {
			return nil
		}
	}
	return &deniedKey{fmt.Sprintf("field %q is not granted; add it to grants.fields", name)}
}

// checkDocument accepts one JSON object within the ABI's limits: strict
// grammar, valid UTF-8, no duplicate keys, bounded depth, finite numbers.
func checkDocument(doc []byte) error {
	if len(doc) > maxResultBytes {
		return fmt.Errorf("result of %d bytes; at most %d are allowed", len(doc), maxResultBytes)
	}
	if !jsontext.Value(doc).IsValid() {
		return invalidJSON(doc)
	}
	if first := bytes.TrimLeft(doc, " \t\r\n"); first[0] != '{' {
		return fmt.Errorf("result is %.20s; it is a JSON object", first)
	}
	return checkDepthAndNumbers(doc)
}

// invalidJSON says where a document that jsontext refuses goes wrong.
func invalidJSON(doc []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	if _, err := d.ReadValue(); err != nil {
		if err == io.EOF {
			return errors.New("result is empty")
		}
		return fmt.Errorf("result is not strict JSON: %w", err)
	}
	return errors.New("result holds more than one JSON value")
}

// checkDepthAndNumbers walks a valid document for the two limits that
// jsontext does not set: nesting, and numbers no float64 can hold.
func checkDepthAndNumbers(doc []byte) error {
	depth := 0
	for i := 0; i < len(doc); {
		switch c := doc[i]; {
		case c == '"':
			i = skipString(doc, i)
		case c == '{' || c == '[':
			if depth++; depth > maxResultDepth {
				return fmt.Errorf("result is nested deeper than %d", maxResultDepth)
			}
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(doc) && isNumberByte(doc[end]) {
				end++
			}
			if !isFinite(doc[i:end]) {
				return fmt.Errorf("number %.40s is beyond a float64", doc[i:end])
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// isFinite reports whether a JSON number fits a float64. Without an exponent
// anything under 309 digits does, which spares the usual number its parse.
func isFinite(number []byte) bool {
	if len(number) < 309 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return true
	}
	_, err := strconv.ParseFloat(string(number), 64)
	return err == nil
}

// memberScanner walks the members of a JSON object that is known to be
// valid. A name is given as it is written, between its quotes.
type memberScanner struct {
	name, value []byte
	rest        []byte
}

// scanMembers starts at a valid object, or at the inside of one.
func scanMembers(object []byte) memberScanner {
	object = bytes.TrimLeft(object, " \t\r\n")
	if len(object) > 0 && object[0] == '{' {
		object = object[1:]
	}
	return memberScanner{rest: object}
}

// next reads one member; it reports false at the object's end.
func (s *memberScanner) next() bool {
	i := skipSpace(s.rest, 0)
	if i < len(s.rest) && s.rest[i] == ',' {
		i = skipSpace(s.rest, i+1)
	}
	if i >= len(s.rest) || s.rest[i] != '"' {
		return false
	}
	end := skipString(s.rest, i)
	s.name = s.rest[i+1 : end-1]
	i = skipSpace(s.rest, end) + 1 // the colon
	i = skipSpace(s.rest, i)
	end = skipValue(s.rest, i)
	s.value = s.rest[i:end]
	s.rest = s.rest[end:]
	return true
}

func skipSpace(doc []byte, i int) int {
	for i < len(doc) && (doc[i] == ' ' || doc[i] == '\t' || doc[i] == '\r' || doc[i] == '\n') {
		i++
	}
	return i
}

// skipString gives the index behind the string that begins at i.
func skipString(doc []byte, i int) int {
	for i++; doc[i] != '"'; i++ {
		if doc[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue gives the index behind the value that begins at i.
func skipValue(doc []byte, i int) int {
	depth := 0
	for i < len(doc) {
		switch doc[i] {
		case '"':
			i = skipString(doc, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or word that ends its object
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}
