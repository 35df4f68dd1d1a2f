package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// maxLine bounds a line of a file, and with it the memory of a reader: the
// frame of a request of 100,000 tokens, each with its event, has 4 MiB.
const maxLine = 16 << 20

// Reader reads the frames of a file, a JSON object a line whose member frame
// is a frame in base64: a ledger's lines and Copy's are such. The file may be
// compressed with gzip.
type Reader struct {
	lines *bufio.Reader
	text  []byte // of the line
	line  int    // from 1
	torn  int
	json  *jsontext.Decoder
	frame []byte

	// emitted is what stands in the line's member of that name: a ledger's
	// records of what was billed. It is valid until the next line.
	emitted jsontext.Value
}

// NewReader begins to read a file.
func NewReader(file io.Reader) (*Reader, error) {
	lines := bufio.NewReaderSize(file, 64<<10)
	magic, err := lines.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(magic) == "\x1f\x8b" { // RFC 1952, section 2.3.1
		unzip, err := gzip.NewReader(lines)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		lines = bufio.NewReaderSize(unzip, 64<<10)
	}
	return &Reader{lines: lines, json: jsontext.NewDecoder(bytes.NewReader(nil))}, nil
}

// Next gives the next frame, io.EOF behind the last one. An error names the
// line.
func (r *Reader) Next() (*plugin.Frame, error) {
	for {
		whole, err := r.readLine()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(r.text)) == 0 {
			if whole {
				continue
			}
			return nil, io.EOF
		}
		frame, err := r.parse()
		switch {
		case err == nil:
			return frame, nil
		case !whole:
			// A server that writes, or one that crashed, leaves a line without its end.
			r.torn = len(r.text)
			return nil, io.EOF
		}
		return nil, fmt.Errorf("line %d: %w", r.line, err)
	}
}

// Torn is the length of a last line that was cut off and is left out; 0 when
// the file is whole.
func (r *Reader) Torn() int { return r.torn }

// readLine reads a line into r.text and tells whether it has its end.
func (r *Reader) readLine() (whole bool, err error) {
	r.line++
	r.text = r.text[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(r.text)+len(part) > maxLine {
			return false, fmt.Errorf("line %d: longer than %d bytes; this is no file of frames", r.line, maxLine)
		}
		r.text = append(r.text, part...)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the latter in gzip that was cut off
			return false, nil
		default:
			return false, fmt.Errorf("line %d: %w", r.line, err)
		}
	}
}

// parse reads the frame of the line.
func (r *Reader) parse() (*plugin.Frame, error) {
	r.json.Reset(bytes.NewReader(r.text))
	if start, err := r.json.ReadToken(); err != nil || start.Kind() != '{' {
		return nil, fmt.Errorf("not a JSON object: %.40q", r.text)
	}
	found := false
	r.emitted = r.emitted[:0]
	for r.json.PeekKind() == '"' {
		name, err := r.json.ReadValue()
		if err != nil {
			return nil, err
		}
		member := string(name) // the next read takes its place
		value, err := r.json.ReadValue()
		if err != nil {
			return nil, err
		}
		if member == `"emitted"` {
			r.emitted = append(r.emitted, value...)
		}
		if member != `"frame"` {
			continue
		}
		if found = true; value.Kind() != '"' {
			return nil, fmt.Errorf("frame: %.40s is not a string of base64", value)
		}
		if r.frame, err = decode(r.frame, value); err != nil {
			return nil, fmt.Errorf("frame: %w", err)
		}
	}
	if _, err := r.json.ReadToken(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := r.json.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON object on the line")
	}
	if !found {
		return nil, errors.New(`no member "frame"; lines of a ledger and of wasmeter plugin record have one`)
	}
	return plugin.ParseFrame(r.frame)
}

// decode decodes a JSON string of base64 into the memory of dst.
func decode(dst []byte, quoted jsontext.Value) ([]byte, error) {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // some writers escape the slash
		var err error
		if text, err = jsontext.AppendUnquote(nil, quoted); err != nil {
			return dst, err
		}
	}
	return base64.StdEncoding.AppendDecode(dst[:0], text)
}
