package hub

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/hub/hubtest"
)

// endless is a body that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestHostileServer(t *testing.T) {
	good := hubtest.SHA256(ggufRepo().Files["model-Q4_K_M.gguf"])
	treeOf := func(entries string) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/tree/") {
				_, _ = io.WriteString(w, entries)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	entry := func(path, hash string, size int64) string {
		return fmt.Sprintf(`[{"type":"file","oid":"%040d","size":1,"path":%q,"lfs":{"oid":%q,"size":%d}}]`, 1, path, hash, size)
	}
	body := func(b func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { b(w) }
	}
	resolve := func(b func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/resolve/") {
				b(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	type wrap = func(http.ResponseWriter, *http.Request, http.Handler)
	for _, test := range []struct {
		name       string
		hub, store wrap
		want       []string
	}{
		{"parent folder", treeOf(entry("../x.gguf", good, 1)), nil, []string{`"../x.gguf" is not a name inside`}},
		{"parent inside", treeOf(entry("a/../../x.gguf", good, 1)), nil, []string{"is not a name inside"}},
		{"absolute", treeOf(entry("/etc/x.gguf", good, 1)), nil, []string{"is not a name inside"}},
		{"backslash", treeOf(entry(`..\x.gguf`, good, 1)), nil, []string{"is not a name inside"}},
		{"drive", treeOf(entry(`C:x.gguf`, good, 1)), nil, []string{"is not a name inside"}},
		{"empty part", treeOf(entry("a//x.gguf", good, 1)), nil, []string{"is not a name inside"}},
		{"line end", treeOf(entry("a\nx.gguf", good, 1)), nil, []string{"is not a name inside"}},
		{"hash is a path", treeOf(entry("x.gguf", "../../x", 1)), nil, []string{"has the hash"}},
		{"large file with a small hash", treeOf(entry("x.gguf", strings.Repeat("0", 40), 1)), nil, []string{"has the hash"}},
		{"negative size", treeOf(entry("x.gguf", good, -1)), nil, []string{"size of -1"}},
		{"absurd size", treeOf(entry("x.gguf", good, 1<<60)), nil, []string{"has a size of"}},
		{"no JSON", treeOf("<html>"), nil, []string{"not what a hub says"}},
		{"endless list", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/tree/") {
				_, _ = io.Copy(w, endless{})
				return
			}
			next.ServeHTTP(w, r)
		}, nil, []string{"longer than 16.0 MiB"}},
		{"list without end of pages", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/tree/") {
				w.Header().Set("Link", `<`+r.URL.Path+`>; rel="next"`)
				_, _ = io.WriteString(w, "[]")
				return
			}
			next.ServeHTTP(w, r)
		}, nil, []string{"more than 1000 pages"}},
		{"commit is a path", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/revision/") {
				_, _ = io.WriteString(w, `{"sha": "../../../../etc"}`)
				return
			}
			next.ServeHTTP(w, r)
		}, nil, []string{`names "../../../../etc" as the commit`}},
		{"redirects in a circle", resolve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }), nil, []string{"more than 10 redirections"}},
		{"redirects to a file", resolve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		}), nil, []string{"which is no address"}},
		{"other hash in the header", resolve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Linked-Etag", `"`+strings.Repeat("0", 64)+`"`)
		}), nil, []string{"the server's ETag is", good}},
		{"other size in the header", resolve(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Linked-Size", "5") }), nil, []string{`"5" bytes`, "700000"}},
		{"other commit in the header", resolve(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Repo-Commit", "f00") }), nil, []string{`of commit "f00"`}},
		{"wrong bytes", nil, body(func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 700_000)) }), []string{"wrong hash", "want " + good}},
		{"endless body", nil, body(func(w http.ResponseWriter) { _, _ = io.Copy(w, endless{}) }), []string{"more than the file's size, 700000 bytes"}},
		{"a byte too many", nil, body(func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 700_001)) }), []string{"more than the file's size"}},
		{"always empty", nil, body(func(http.ResponseWriter) {}), []string{"ended early", "after 0 of 700000 bytes"}},
		{"a range unasked", nil, body(func(w http.ResponseWriter) { w.WriteHeader(http.StatusPartialContent) }), []string{"206"}},
		{"hangs up", nil, body(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }), []string{"ask 127.0.0.1:", "EOF"}},
		{"gone", nil, body(func(w http.ResponseWriter) { http.Error(w, "no", http.StatusNotFound) }), []string{"404"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()})
			h.Wrap, h.WrapStore = test.hub, test.store
			c := newClient(t, h)
			refused(t, c, "org/repo", test.want...)
			for _, line := range layout(t, c.options.Cache) {
				if !strings.Contains(line, ".lock") && !strings.Contains(line, ".incomplete") {
					t.Errorf("left behind: %s", line)
				}
			}
			if above, err := os.ReadDir(filepath.Dir(c.options.Cache)); err != nil || len(above) > 3 {
				t.Errorf("files beside the cache: %v, %v", above, err)
			}
		})
	}
}

// The wrong part in answer to a range would be caught by the hash at the end;
// it is told before.
func TestWrongRange(t *testing.T) {
	repo := ggufRepo()
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
	h.WrapStore = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Range") == "" {
			next.ServeHTTP(&cutting{ResponseWriter: w, left: 150_000}, r)
			return
		}
		r.Header.Set("Range", "bytes=10-")
		next.ServeHTTP(w, r)
	}
	refused(t, newClient(t, h), "org/repo", `sends the range "bytes 10-699999/700000", want "bytes`)
}
