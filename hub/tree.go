package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// The bounds on what a hub may say of a repository.
const (
	maxAnswer   = 16 << 20 // bytes of a page
	maxPages    = 1000
	maxFiles    = 100_000
	maxFileSize = 1 << 44 // bytes, 16 TiB
)

// File is a file of a repository.
type File struct {
	// Path has slashes and stays below the repository's folder.
	Path string
	// Size is in bytes.
	Size int64
	// Hash names the file's bytes in the cache: the SHA-256 of a large file, the
	// blob id of git, a SHA-1, of a small one. Lower-case hexadecimal.
	Hash string
}

var hashPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// commit asks for the commit of a revision.
func (c *Client) commit(ctx context.Context, r Reference) (string, error) {
	org, name, _ := strings.Cut(r.Repo, "/")
	var answer struct {
		SHA string `json:"sha"`
	}
	if _, err := c.ask(ctx, c.address("api", "models", org, name, "revision", r.Revision), &answer); err != nil {
		return "", err
	}
	if !commitPattern.MatchString(answer.SHA) {
		return "", fmt.Errorf("%s names %.60q as the commit of %s, which is none", c.endpoint.Host, answer.SHA, r.Revision)
	}
	return answer.SHA, nil
}

// treeEntry is a line of a tree's listing. Its other fields are of no use here.
type treeEntry struct {
	Type string `json:"type"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// tree lists the files of a commit.
func (c *Client) tree(ctx context.Context, repo, commit string) ([]File, error) {
	org, name, _ := strings.Cut(repo, "/")
	at := c.address("api", "models", org, name, "tree", commit)
	at.RawQuery = "recursive=true&expand=false"
	var files []File
	for range maxPages {
		var entries []treeEntry
		header, err := c.ask(ctx, at, &entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type != "file" {
				continue
			}
			f, err := e.file()
			if err != nil {
				return nil, fmt.Errorf("%s lists a file that is refused: %w", c.endpoint.Host, err)
			}
			files = append(files, f)
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("%s lists more than %d files", c.endpoint.Host, maxFiles)
		}
		next := nextPage(at, header)
		if next == nil {
			return files, nil
		}
		// A mirror passes on the addresses of the hub that it mirrors.
		next.Scheme, next.Host, next.User = c.endpoint.Scheme, c.endpoint.Host, nil
		at = next
	}
	return nil, fmt.Errorf("%s lists files on more than %d pages", c.endpoint.Host, maxPages)
}

// file checks an entry. A name that leaves its folder is never asked for nor
// written.
func (e treeEntry) file() (File, error) {
	f := File{Path: e.Path, Size: e.Size, Hash: e.OID}
	if e.LFS != nil {
		f.Size, f.Hash = e.LFS.Size, strings.TrimPrefix(e.LFS.OID, "sha256:")
	}
	switch {
	case !local(f.Path):
		return f, fmt.Errorf("%.200q is not a name inside the repository", f.Path)
	case !hashPattern.MatchString(f.Hash), e.LFS != nil && len(f.Hash) != 64:
		return f, fmt.Errorf("%s has the hash %.100q, want 64 hexadecimal digits, or 40 of a small file", f.Path, f.Hash)
	case f.Size < 0 || f.Size > maxFileSize:
		return f, fmt.Errorf("%s has a size of %d bytes", f.Path, f.Size)
	}
	return f, nil
}

// nextPage is the address of the Link header's "next", RFC 8288; nil without.
func nextPage(at *url.URL, header http.Header) *url.URL {
	for _, link := range header.Values("Link") {
		for part := range strings.SplitSeq(link, ",") {
			target, parameters, _ := strings.Cut(part, ";")
			target = strings.TrimSpace(target)
			if !strings.Contains(parameters, `rel="next"`) || len(target) < 2 || target[0] != '<' {
				continue
			}
			if u, err := at.Parse(target[1 : len(target)-1]); err == nil {
				return u
			}
		}
	}
	return nil
}

// ask gets a JSON document, and asks again where that may help.
func (c *Client) ask(ctx context.Context, at *url.URL, into any) (http.Header, error) {
	for attempt := 1; ; attempt++ {
		header, err := c.askOnce(ctx, at, into)
		if err == nil || !temporary(err) || attempt == maxAttempts || ctx.Err() != nil {
			return header, err
		}
		// A hub that can't be reached at all is better told at once: what is in
		// the cache may do.
		var unreachable *unreachableError
		if errors.As(err, &unreachable) && attempt == 2 {
			return nil, err
		}
		if err := c.wait(ctx, attempt, err); err != nil {
			return nil, err
		}
	}
}

func (c *Client) askOnce(ctx context.Context, at *url.URL, into any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	response, err := c.get(ctx, at, nil, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, statusOf(response)
	}
	defer response.Body.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, &unreachableError{fmt.Errorf("read %s: %w", at.Path, err)}
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("%s: the answer is longer than %s", at.Path, SizeText(maxAnswer))
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("%s: the answer is not what a hub says: %w", at.Path, err)
	}
	return response.Header, nil
}

// wait says why something is tried again, and waits before it: 1 s, 2 s, 4 s
// and so on, or as long as the server asks for.
func (c *Client) wait(ctx context.Context, attempt int, err error) error {
	d := time.Second << min(attempt-1, 5)
	var status *statusError
	if errors.As(err, &status) && status.after > 0 {
		d = status.after
	}
	c.note("%v; trying again in %s", err, d)
	return c.pause(ctx, d)
}
