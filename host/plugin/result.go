package plugin

import (
	"bytes"
	"errors"
	"fmt"
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
	if len(result) > maxResultBytes {
		return dst, fmt.Errorf("result of %d bytes; at most %d are allowed", len(result), maxResultBytes)
	}
	s := jsonScanner{doc: result}
	if first := s.peek(); first != '{' && first != 0 {
		return dst, fmt.Errorf("result is %.20q; it is a JSON object", result)
	}
	members := dst
	for document := s.enter(); ; {
		name, more := s.next(&document)
		if !more {
			break
		}
		var err error
		switch string(name) {
		case "fields":
			members, err = rules.appendFields(members, &s)
		case "carry":
			if carry := s.value(2); s.err == nil && (carry[0] != '"' || len(carry) > maxCarryBytes+len(`""`)) {
				err = fmt.Errorf("carry is a string of at most %d bytes", maxCarryBytes)
			}
		case "usage", "headers", "document", "deny", "priority", "deadline_ms":
			err = &deniedKey{fmt.Sprintf("%q is not granted", name)}
		default:
			err = fmt.Errorf("unknown member %q; a shape result has fields, usage, headers and carry", name)
		}
		if err != nil {
			return dst, fmt.Errorf("result: %w", err)
		}
	}
	if err := s.end(); err != nil {
		return dst, fmt.Errorf("result: %w", err)
	}
	return members, nil
}

// appendFields appends the members of the object that s is in front of.
func (rules *resultRules) appendFields(dst []byte, s *jsonScanner) ([]byte, error) {
	if s.peek() != '{' {
		return dst, errors.New("fields is something else; it is an object")
	}
	for fields := s.enter(); ; {
		name, more := s.next(&fields)
		if !more {
			return dst, nil
		}
		if err := rules.checkField(name); err != nil {
			return dst, err
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		dst = append(dst, s.value(3)...)
	}
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
