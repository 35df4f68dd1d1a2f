package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// resultRules are what one plugin's result documents may hold.
type resultRules struct {
	grants   *Grants
	reserved *reservedNames // names of the wire, never granted
}

// reservedNames are the names that belong to the server itself.
type reservedNames struct{ fields, usage, headers map[string]bool }

func newReservedNames(o *Options) *reservedNames {
	set := func(names []string) map[string]bool {
		all := make(map[string]bool, len(names))
		for _, name := range names {
			all[name] = true
		}
		return all
	}
	return &reservedNames{set(o.Reserved), set(o.ReservedUsage), set(o.ReservedHeaders)}
}

// Header is a response header, its name in lower case.
type Header struct{ Name, Value string }

// Deny refuses a request.
type Deny struct {
	Plugin     string
	Status     int    // 400 … 599
	Code       string // for programs: a-z, 0-9 and _
	Message    string // for people
	RetryAfter int    // seconds; 0 for none
}

// result gathers what plugins answer for one request. Its memory is used
// again by the next hook.
type result struct {
	members  []byte // of the answer, separated by commas
	usage    []byte // of its usage, the same
	headers  []Header
	document []byte // in place of the answer; nil if no plugin writes one
	carry    string // of the last call
	carried  bool   // the last call gave a carry
	deny     *Deny
	// admission is what all plugins together have said.
	admission Admission
	effects   effects
}

// begin forgets what an earlier hook left.
func (r *result) begin() {
	r.members, r.usage, r.headers = r.members[:0], r.usage[:0], r.headers[:0]
	r.document, r.carry, r.carried, r.deny, r.admission = nil, "", false, nil, Admission{}
	r.effects.reset()
}

// read checks the result document of a call and adds what it says to into.
// original is the document that the plugin may replace. On an error into is
// as it was.
func (rules *resultRules) read(hook Hook, text, original []byte, into *result) error {
	most := maxResultBytes
	if rules.grants.Rewrite && hook != HookRequest {
		most += len(original) + maxDocumentMore
	}
	if len(text) > most {
		return fmt.Errorf("result of %d bytes; at most %d are allowed", len(text), most)
	}
	r := resultReader{jsonScanner: jsonScanner{doc: text}, rules: rules, hook: hook, original: original, into: into}
	before := *into
	into.carried = false
	if err := r.document(); err != nil {
		// The effects stand: the caller drops them with the call.
		effects := into.effects
		*into = before
		into.effects = effects
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// resultReader reads one result document.
type resultReader struct {
	jsonScanner
	rules    *resultRules
	hook     Hook
	original []byte
	into     *result
}

func (r *resultReader) document() error {
	if first := r.peek(); first != '{' && first != 0 {
		return fmt.Errorf("%.20q; it is a JSON object", r.doc)
	}
	for document := r.enter(); ; {
		name, more := r.next(&document)
		if !more {
			return r.end()
		}
		if err := r.member(name); err != nil {
			return err
		}
	}
}

// member reads the value of the result's member called name.
func (r *resultReader) member(name []byte) (err error) {
	grants, into := r.rules.grants, r.into
	shape, request := r.hook == HookShape, r.hook == HookRequest
	here := true
	switch string(name) {
	case "fields":
		if here = shape; here {
			into.members, err = r.members(into.members, "fields", grants.Fields, r.rules.reserved.fields)
		}
	case "usage":
		if here = shape; here && len(grants.UsageExtend) == 0 {
			err = denied(`"usage" is not granted; list its members in grants.usage_extend`)
		} else if here {
			into.usage, err = r.members(into.usage, "usage_extend", grants.UsageExtend, r.rules.reserved.usage)
		}
	case "headers":
		if here = shape || request; here && len(grants.Headers) == 0 {
			err = denied(`"headers" is not granted; list them in grants.headers`)
		} else if here {
			err = r.headers()
		}
	case "carry":
		into.carried = true
		into.carry, err = r.text("carry", maxCarryBytes)
	case "document":
		if here = !request; here {
			err = r.replacement()
		}
	case "deny":
		if here = request; here {
			err = r.deny()
		}
	case "priority", "deadline_ms":
		if here = request; here {
			err = r.admission(string(name))
		}
	default:
		err = fmt.Errorf("unknown member %q; ABI.md lists what the hook %s answers", name, r.hook)
	}
	if !here {
		return denied("%q is not for the hook %s; ABI.md lists what it answers", name, r.hook)
	}
	return err
}

// members appends the members of the object that comes next to dst, with a
// comma before each but the first of dst.
func (r *resultReader) members(dst []byte, grant string, granted []string, reserved map[string]bool) ([]byte, error) {
	if r.peek() != '{' {
		return dst, fmt.Errorf("%s is something else; it is an object", strings.TrimSuffix(grant, "_extend"))
	}
	for object := r.enter(); ; {
		name, more := r.next(&object)
		if !more {
			return dst, nil
		}
		if err := checkGranted(name, grant, granted, reserved); err != nil {
			return dst, err
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, `":`...)
		dst = append(dst, r.value(3)...)
	}
}

// checkGranted checks the name of a field, of a member of usage or of a
// header.
func checkGranted(name []byte, grant string, granted []string, reserved map[string]bool) error {
	if bytes.IndexByte(name, '\\') >= 0 {
		return fmt.Errorf("the name %q holds a backslash", name)
	}
	if reserved[string(name)] {
		return denied("%q is a member of the API itself", name)
	}
	for _, pattern := range granted {
		if covers(pattern, name) {
			return nil
		}
	}
	return denied("%q is not granted; add it to grants.%s", name, grant)
}

// text reads a string of at most most bytes as it is written.
func (r *resultReader) text(what string, most int) (string, error) {
	if r.peek() != '"' {
		return "", fmt.Errorf("%s is something else; it is a string", what)
	}
	raw := r.value(2)
	if r.err != nil {
		return "", nil // end tells it
	}
	if len(raw) > most+len(`""`) {
		return "", fmt.Errorf("%s has %d bytes; at most %d are allowed", what, len(raw)-len(`""`), most)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	text, err := jsontext.AppendUnquote([]byte(nil), raw)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return string(text), nil
}

// integer reads a number without fraction and exponent in from … to.
func (r *resultReader) integer(what string, from, to int) (int, error) {
	raw := r.value(3)
	if r.err != nil {
		return 0, nil // end tells it
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < from || n > to {
		return 0, fmt.Errorf("%s is %.20s; it is a whole number in %d … %d", what, raw, from, to)
	}
	return n, nil
}

func (r *resultReader) headers() error {
	if r.peek() != '{' {
		return errors.New("headers is something else; it is an object")
	}
	for object := r.enter(); ; {
		name, more := r.next(&object)
		if !more {
			return nil
		}
		if err := checkGranted(name, "headers", r.rules.grants.Headers, r.rules.reserved.headers); err != nil {
			return err
		}
		if !isHeaderName(string(name)) {
			return fmt.Errorf("header %q; a name is of a-z, 0-9 and -, in lower case", name)
		}
		value, err := r.text("header "+string(name), maxHeaderBytes)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return fmt.Errorf("header %s is %q; use printable ASCII", name, value)
		}
		if len(r.into.headers) == maxHeaders {
			return fmt.Errorf("more than %d headers", maxHeaders)
		}
		r.into.headers = append(r.into.headers, Header{string(name), value})
	}
}

func (r *resultReader) deny() error {
	if !r.rules.grants.Deny {
		return denied(`"deny" is not granted; set grants.deny: true`)
	}
	if r.peek() != '{' {
		return errors.New("deny is something else; it is an object")
	}
	d := &Deny{}
	for object := r.enter(); ; {
		name, more := r.next(&object)
		if !more {
			break
		}
		var err error
		switch string(name) {
		case "status":
			d.Status, err = r.integer("deny.status", 400, 599)
		case "code":
			if d.Code, err = r.text("deny.code", maxFieldName); err == nil && r.err == nil && !isCode(d.Code) {
				err = fmt.Errorf("deny.code is %q; use a-z, 0-9 and _", d.Code)
			}
		case "message":
			d.Message, err = r.text("deny.message", maxDenyMessage)
		case "retry_after":
			d.RetryAfter, err = r.integer("deny.retry_after", 0, maxRetryAfter)
		default:
			err = fmt.Errorf("unknown member %q of deny; it has status, code, message and retry_after", name)
		}
		if err != nil {
			return err
		}
	}
	if r.err == nil && (d.Status == 0 || d.Code == "" || d.Message == "") {
		return errors.New("deny needs status, code and message")
	}
	r.into.deny = d
	return nil
}

func isCode(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_')
	})
}

// replacement reads a document that replaces the answer's. It may change what
// the answer says and nothing of what it is: no member is added (that is
// what fields are for), and usage stays exact.
func (r *resultReader) replacement() error {
	if !r.rules.grants.Rewrite {
		return denied(`"document" is not granted; set grants.rewrite: true`)
	}
	if len(r.original) == 0 {
		return denied(`"document" replaces the answer's, and here there is none`)
	}
	if r.peek() != '{' {
		return errors.New("document is something else; it is an object")
	}
	r.deepest = maxDocumentDepth
	text := r.value(1) // its depth is its own
	r.deepest = 0
	if r.err != nil {
		return nil // end tells it
	}
	if most := len(r.original) + maxDocumentMore; len(text) > most {
		return fmt.Errorf("document of %d bytes; at most %d are allowed", len(text), most)
	}
	was := topLevel(r.original)
	is := topLevel(text)
	for name := range is {
		if _, known := was[name]; !known {
			return denied("document has the member %q, which the answer has not; use fields", name)
		}
	}
	if !bytes.Equal(is["usage"], was["usage"]) {
		return denied("document changes usage from %.200s to %.200s; it stays exact", was["usage"], is["usage"])
	}
	// The last event of a Responses stream has the answer, with its usage, inside.
	if !bytes.Equal(topLevel(is["response"])["usage"], topLevel(was["response"])["usage"]) {
		return denied("document changes response.usage; it stays exact")
	}
	r.into.document = bytes.Clone(text)
	return nil
}

// topLevel gives the members of the object doc by their names as they are
// written; none if doc is no object.
func topLevel(doc []byte) map[string][]byte {
	s := jsonScanner{doc: doc, deepest: maxDocumentDepth}
	if s.peek() != '{' {
		return nil
	}
	all := make(map[string][]byte)
	for object := s.enter(); ; {
		name, more := s.next(&object)
		if !more {
			return all
		}
		all[string(name)] = s.value(3)
	}
}
