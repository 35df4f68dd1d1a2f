package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The bounds on waiting for a server.
const (
	askTimeout    = 20 * time.Second // for a whole document: a cache may do instead
	headerTimeout = 30 * time.Second // until an answer begins
	stallTimeout  = 60 * time.Second // without a byte of a body
	maxRedirects  = 10
)

// Client fetches models from one hub into one cache. Any number of goroutines
// may use it.
type Client struct {
	options  Options
	endpoint *url.URL
	http     *http.Client

	// What tests set.
	free  func(folder string) (bytes uint64, known bool)
	pause func(ctx context.Context, d time.Duration) error
}

// New makes a client; nothing is asked yet.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("HF_ENDPOINT: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerTimeout
	transport.DisableCompression = true // sizes and hashes are of the bytes as they are
	transport.MaxResponseHeaderBytes = 1 << 18
	return &Client{
		options:  o,
		endpoint: endpoint,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // get follows them
		}},
		free:  freeBytes,
		pause: pause,
	}, nil
}

// Close ends connections that are kept open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) note(format string, args ...any) {
	c.report(Progress{Note: fmt.Sprintf(format, args...)})
}

func (c *Client) report(p Progress) {
	if c.options.Report != nil {
		c.options.Report(p)
	}
}

// pause waits, but no longer than ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get asks for an address of the endpoint and follows redirections, of which
// each has check called with it. The token goes to the endpoint's scheme, host
// and port alone: a redirection is mostly to a store that has no business with
// it.
func (c *Client) get(ctx context.Context, address *url.URL, header http.Header, check func(http.Header) error) (*http.Response, error) {
	for range maxRedirects {
		own := address.Scheme == c.endpoint.Scheme && address.Host == c.endpoint.Host
		request := (&http.Request{Method: http.MethodGet, URL: address, Host: address.Host, Header: header.Clone()}).WithContext(ctx)
		if request.Header == nil {
			request.Header = make(http.Header)
		}
		request.Header.Set("User-Agent", first(c.options.UserAgent, "wasmeter"))
		request.Header.Set("Accept-Encoding", "identity")
		if own && c.options.Token != "" {
			request.Header.Set("Authorization", "Bearer "+c.options.Token)
		}
		response, err := c.http.Do(request)
		if err != nil {
			// The address, which a store signs, is not to be told.
			var told *url.Error
			if errors.As(err, &told) {
				err = told.Err
			}
			return nil, &unreachableError{fmt.Errorf("ask %s: %w", address.Host, err)}
		}
		if own && check != nil && response.StatusCode < 400 {
			if err := check(response.Header); err != nil {
				_ = response.Body.Close() // the first error is the one to tell
				return nil, err
			}
		}
		if !isRedirect(response.StatusCode) {
			return response, nil
		}
		_ = response.Body.Close() // a redirection's body is not read
		next, err := address.Parse(response.Header.Get("Location"))
		switch {
		case err != nil || next.Host == "" || next.Scheme != "http" && next.Scheme != "https":
			return nil, fmt.Errorf("%s redirects to %.60q, which is no address", address.Host, response.Header.Get("Location"))
		case address.Scheme == "https" && next.Scheme == "http":
			return nil, fmt.Errorf("%s redirects to %s: from https to http is refused", address.Host, next.Host)
		}
		next.User = nil
		address = next
	}
	return nil, fmt.Errorf("%s: more than %d redirections", address.Host, maxRedirects)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// address is a path of the endpoint, whose parts are escaped.
func (c *Client) address(parts ...string) *url.URL {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	u := *c.endpoint
	u.RawPath = strings.TrimRight(u.EscapedPath(), "/") + "/" + strings.Join(escaped, "/")
	u.Path, _ = url.PathUnescape(u.RawPath) // it was escaped above
	return &u
}

// unreachableError is a server that did not answer, or stopped in the middle.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// statusError is an answer that is not the one asked for.
type statusError struct {
	status  int
	code    string // the hub's word: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound
	message string // the hub's sentence
	after   time.Duration
	host    string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s answers %d %s", e.host, e.status, http.StatusText(e.status))
	if e.code != "" {
		text += " (" + e.code + ")"
	}
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// statusOf makes an error of an answer and closes it.
func statusOf(r *http.Response) error {
	_ = r.Body.Close() // what went wrong stands in the header
	e := &statusError{status: r.StatusCode, host: r.Request.URL.Host}
	e.code, e.message = headerText(r.Header, "X-Error-Code", 64), headerText(r.Header, "X-Error-Message", 300)
	if s, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && s > 0 {
		e.after = min(time.Duration(s), 120) * time.Second
	}
	return e
}

// headerText is a header that may be shown: short, and without control
// characters.
func headerText(h http.Header, name string, most int) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, h.Get(name))
	return text[:min(len(text), most)]
}

// temporary tells whether to ask again may help.
func temporary(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.status == http.StatusTooManyRequests || status.status == http.StatusRequestTimeout || status.status >= 500
	}
	var unreachable *unreachableError
	return errors.As(err, &unreachable)
}

// A stallingReader ends with an error if no byte comes for too long: a
// connection that died without a word would hold a pull forever.
type stallingReader struct {
	body  io.ReadCloser
	timer *time.Timer
	limit time.Duration
}

func newStallingReader(body io.ReadCloser, limit time.Duration) *stallingReader {
	return &stallingReader{body, time.AfterFunc(limit, func() { _ = body.Close() }), limit} // Read then fails, which is the aim
}

func (s *stallingReader) Read(b []byte) (int, error) {
	n, err := s.body.Read(b)
	if !s.timer.Reset(s.limit) && err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("no byte for %s", s.limit)
	}
	return n, err
}

func (s *stallingReader) Close() error {
	s.timer.Stop()
	return s.body.Close()
}
