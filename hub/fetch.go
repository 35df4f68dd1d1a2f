package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxAttempts is how often something is tried in a row without a byte of
// progress.
const maxAttempts = 5

// download is one file on its way into the cache.
type download struct {
	client *Client
	repo   Reference
	cache  repoCache
	commit string
	file   File
}

// run brings the file into the snapshot, unless it is there.
func (d *download) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(d.cache.blob(d.file.Hash)), 0o777); err != nil {
		return err
	}
	release, err := d.client.acquire(ctx, d.cache.lock(d.file.Hash), func() {
		d.client.report(Progress{File: d.file.Path, Size: d.file.Size, Note: "another process fetches this file; waiting for it"})
	})
	if err != nil {
		return err
	}
	defer release()
	if d.cache.has(d.commit, d.file) {
		return nil // someone else was faster
	}
	if info, err := os.Stat(d.cache.blob(d.file.Hash)); err != nil || info.Size() != d.file.Size {
		if err := d.fetch(ctx); err != nil {
			return err
		}
	}
	return d.cache.link(d.commit, d.file)
}

// errWrongHash is a file that is whole and not what the hub lists.
var errWrongHash = errors.New("wrong hash")

// fetch makes the blob, going on from what an earlier attempt left.
func (d *download) fetch(ctx context.Context) error {
	path := d.cache.partial(d.file.Hash)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close() // a second time after the one below, where all went well
	w := &partial{file: f, sum: hasherOf(d.file)}
	resumed, err := w.resume(ctx, d.file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	err = d.fill(ctx, w)
	if errors.Is(err, errWrongHash) && resumed {
		d.client.report(Progress{File: d.file.Path, Size: d.file.Size, Note: "the partial file was damaged; fetching it anew"})
		if err = w.restart(d.file); err == nil {
			err = d.fill(ctx, w)
		}
	}
	if errors.Is(err, errWrongHash) || errors.Is(err, errTooLong) {
		_ = os.Remove(path) // nothing of it can be used; the error is the one to tell
	}
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path, d.cache.blob(d.file.Hash))
}

// fill receives until the file is whole, then checks its hash.
func (d *download) fill(ctx context.Context, w *partial) error {
	for attempt := 1; w.size < d.file.Size; attempt++ {
		before := w.size
		err := d.receive(ctx, w)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: stopped at %d of %d bytes, which are kept: the same command goes on from there: %w", d.file.Path, w.size, d.file.Size, ctx.Err())
		}
		if w.size > before {
			attempt = 1
		}
		if !temporary(err) || attempt >= maxAttempts {
			return fmt.Errorf("%s: after %d of %d bytes: %w", d.file.Path, w.size, d.file.Size, err)
		}
		if err := d.client.wait(ctx, attempt, err); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(w.sum.Sum(nil)); got != d.file.Hash {
		return fmt.Errorf("%s: %w: received %s, want %s by the hub's list: the server or something between is faulty", d.file.Path, errWrongHash, got, d.file.Hash)
	}
	return nil
}

// errTooLong is a server that sends more than the file has.
var errTooLong = errors.New("the server sends more than the file's size")

// receive makes one request for the rest of the file and writes what comes.
func (d *download) receive(ctx context.Context, w *partial) error {
	org, name, _ := strings.Cut(d.repo.Repo, "/")
	at := d.client.address(append([]string{org, name, "resolve", d.commit}, strings.Split(d.file.Path, "/")...)...)
	header := make(http.Header)
	if w.size > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", w.size))
	}
	response, err := d.client.get(ctx, at, header, d.checkHeader)
	if err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusPartialContent && w.size > 0:
		if err := d.checkRange(response.Header.Get("Content-Range"), w.size); err != nil {
			_ = response.Body.Close()
			return err
		}
	case response.StatusCode == http.StatusOK:
		if w.size > 0 { // the server does not know ranges
			if err := w.restart(d.file); err != nil {
				_ = response.Body.Close()
				return err
			}
		}
	default:
		return statusOf(response)
	}
	body := newStallingReader(response.Body, stallTimeout)
	defer body.Close() // it was only read
	return d.copy(ctx, w, body, response.Request.URL)
}

// checkHeader compares what the hub says beside a file with its list.
func (d *download) checkHeader(h http.Header) error {
	if commit := h.Get("X-Repo-Commit"); commit != "" && commit != d.commit {
		return fmt.Errorf("%s: the server has it of commit %.60q, want %s", d.file.Path, commit, d.commit)
	}
	tag := etag(h.Get("X-Linked-Etag"))
	if tag == "" && h.Get("Location") == "" {
		// A small file has only an ETag, which of a mirror may be of any kind.
		if tag = etag(h.Get("Etag")); !hashPattern.MatchString(tag) {
			tag = ""
		}
	}
	if tag != "" && tag != d.file.Hash {
		return fmt.Errorf("%s: the server's ETag is %.100q, but its list says %s", d.file.Path, tag, d.file.Hash)
	}
	if size := h.Get("X-Linked-Size"); size != "" && size != strconv.FormatInt(d.file.Size, 10) {
		return fmt.Errorf("%s: the server says it has %.30q bytes, but its list says %d", d.file.Path, size, d.file.Size)
	}
	return nil
}

// etag is the hash inside an ETag: W/"…" or "…".
func etag(text string) string {
	return strings.Trim(strings.TrimPrefix(text, "W/"), `"`)
}

// checkRange makes sure that a partial answer is the part that was asked for:
// RFC 9110, section 14.4.
func (d *download) checkRange(text string, from int64) error {
	if want := fmt.Sprintf("bytes %d-%d/%d", from, d.file.Size-1, d.file.Size); text != want {
		return fmt.Errorf("%s: the server sends the range %.80q, want %q", d.file.Path, text, want)
	}
	return nil
}

// copy writes a body to the end of the file, and never more than the file has.
func (d *download) copy(ctx context.Context, w *partial, body io.Reader, from *url.URL) error {
	buffer := make([]byte, 256<<10)
	for {
		if ctx.Err() != nil { // the transport may have more to give
			return ctx.Err()
		}
		n, err := body.Read(buffer)
		if int64(n) > d.file.Size-w.size {
			return fmt.Errorf("%s: %s: %w, %d bytes", d.file.Path, from.Host, errTooLong, d.file.Size)
		}
		if n > 0 {
			if err := w.append(buffer[:n]); err != nil {
				return err
			}
			d.client.report(Progress{File: d.file.Path, Done: w.size, Size: d.file.Size})
		}
		switch {
		case errors.Is(err, io.EOF) && w.size == d.file.Size:
			return nil
		case errors.Is(err, io.EOF):
			return &unreachableError{fmt.Errorf("%s ended early", from.Host)}
		case err != nil:
			return &unreachableError{fmt.Errorf("read from %s: %w", from.Host, err)}
		}
	}
}

// partial is a file that grows at its end, and the hash of what it holds.
type partial struct {
	file *os.File
	sum  hash.Hash
	size int64
}

// hasherOf gives the hash by which a file is named.
func hasherOf(f File) hash.Hash {
	if len(f.Hash) == sha256.Size*2 {
		return sha256.New()
	}
	// Git's blob id, https://git-scm.com/book/en/v2/Git-Internals-Git-Objects.
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h
}

// resume takes in what is there. More than the file has is thrown away.
func (p *partial) resume(ctx context.Context, f File) (resumed bool, err error) {
	info, err := p.file.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() > f.Size {
		return false, p.restart(f)
	}
	buffer := make([]byte, 1<<20)
	for {
		n, err := p.file.Read(buffer)
		p.sum.Write(buffer[:n]) // a hash does not fail
		p.size += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return p.size > 0, nil
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, ctx.Err()
		}
	}
}

func (p *partial) restart(f File) error {
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p.sum, p.size = hasherOf(f), 0
	return nil
}

func (p *partial) append(b []byte) error {
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", p.file.Name(), err)
	}
	return nil
}
