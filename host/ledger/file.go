package ledger

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// File appends records to a file, a JSON object a line. Records that come while
// the disk is busy with earlier ones are written and synced together, so that
// their number a second is not bounded by the disk's.
type File struct {
	file *os.File
	done chan struct{} // closed when the writer has ended

	// mu guards what follows; more is told when there is something to write.
	mu     sync.Mutex
	more   sync.Cond
	lines  []byte
	group  *group // of lines
	closed bool
	broken error // the first failure to write: after it nothing is durable
}

// group is the records that become durable together.
type group struct {
	synced chan struct{}
	err    error // read after synced
}

// ErrClosed: the recorder takes no more records.
var ErrClosed = errors.New("ledger is closed")

// OpenFile opens or makes a file of records. A last line without an end, which a
// crash may leave and nobody was told is durable, is cut off; torn is its length.
func OpenFile(path string) (f *File, torn int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	if torn, err = cutTorn(file); err == nil {
		err = syncFolder(path)
	}
	if err != nil {
		file.Close() // nothing was written
		return nil, 0, fmt.Errorf("open ledger %s: %w", path, err)
	}
	f = &File{file: file, done: make(chan struct{}), group: newGroup()}
	f.more.L = &f.mu
	go f.write()
	return f, torn, nil
}

func newGroup() *group { return &group{synced: make(chan struct{})} }

// cutTorn leaves the file at the end of its last whole line.
func cutTorn(file *os.File) (torn int64, err error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for at := end; at > 0; {
		n := min(at, int64(len(block)))
		at -= n
		if _, err := file.ReadAt(block[:n], at); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 || at == 0 {
			torn = end - (at + int64(i) + 1)
			break
		}
	}
	if torn > 0 {
		if err := file.Truncate(end - torn); err != nil {
			return 0, err
		}
	}
	_, err = file.Seek(0, io.SeekEnd)
	return torn, err
}

// syncFolder makes the file's name durable.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Append adds a record and waits until its group is durable.
func (f *File) Append(r *Record) error {
	f.mu.Lock()
	switch {
	case f.closed:
		f.mu.Unlock()
		return ErrClosed
	case f.broken != nil:
		err := f.broken
		f.mu.Unlock()
		return err
	}
	f.lines = append(r.appendJSON(f.lines), '\n')
	g := f.group
	f.more.Signal()
	f.mu.Unlock()
	<-g.synced
	return g.err
}

// write is the one goroutine that touches the file.
func (f *File) write() {
	defer close(f.done)
	var spare []byte
	for {
		f.mu.Lock()
		for len(f.lines) == 0 && !f.closed {
			f.more.Wait()
		}
		if len(f.lines) == 0 {
			f.mu.Unlock()
			return
		}
		lines, g := f.lines, f.group
		f.lines, f.group = spare[:0], newGroup()
		f.mu.Unlock()

		_, err := f.file.Write(lines)
		if err == nil {
			err = f.file.Sync()
		}
		if err != nil {
			// What is on the disk is not known any more: go no further.
			err = fmt.Errorf("write ledger: %w", err)
			f.mu.Lock()
			f.broken = err
			late := f.group
			f.lines = f.lines[:0]
			f.group = newGroup()
			f.mu.Unlock()
			late.err = err
			close(late.synced)
		}
		g.err = err
		close(g.synced)
		spare = lines
	}
}

// Close writes what is waiting and closes the file. It may be called again.
func (f *File) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	f.more.Signal()
	f.mu.Unlock()
	<-f.done
	if !first {
		return nil
	}
	return f.file.Close()
}

// appendJSON appends the record as an object.
func (r *Record) appendJSON(dst []byte) []byte {
	text := func(name, value string) {
		dst = append(dst, ',')
		dst = quote(dst, name)
		dst = append(dst, ':')
		dst = quote(dst, value)
	}
	number := func(name string, value int64) {
		dst = append(dst, ',')
		dst = quote(dst, name)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, value, 10)
	}
	dst = append(dst, `{"attempt_id":`...)
	dst = quote(dst, r.AttemptID)
	text("time", r.Time.UTC().Format(time.RFC3339Nano))
	text("request_id", r.RequestID)
	text("tenant", r.Tenant)
	text("key", r.KeyName)
	text("model", r.Model)
	text("endpoint", r.Endpoint)
	text("outcome", r.Outcome)
	number("prompt_tokens", int64(r.PromptTokens))
	number("cached_tokens", int64(r.CachedTokens))
	number("completion_tokens", int64(r.CompletionTokens))
	if d := r.Drafts; d != nil {
		number("drafted_tokens", int64(d.Drafted))
		number("accepted_tokens", int64(d.Accepted))
	}
	number("device_ns", int64(r.DeviceTime))
	dst = append(dst, `,"emitted":[`...)
	for i := range r.Emitted {
		e := &r.Emitted[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"plugin":`...)
		dst = quote(dst, e.Plugin)
		number("index", int64(e.Index))
		number("kind", int64(e.Kind))
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"unpriced":[`...)
	for i, name := range r.Unpriced {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = quote(dst, name)
	}
	dst = append(dst, `],"frame":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, r.Frame)
	return append(dst, '"', '}')
}

// quote appends a JSON string. Text that is not UTF-8, which a header may hold,
// is written with replacement characters.
func quote(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its error says that characters were replaced
	return dst
}
