package hub

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// FuzzTree: of a list of files, what is not refused stays below the cache.
func FuzzTree(f *testing.F) {
	f.Add([]byte(`[{"type":"file","oid":"0123456789abcdef0123456789abcdef01234567","size":5,"path":"a/b.json"}]`))
	f.Add([]byte(`[{"type":"file","oid":"x","size":1,"path":"m.gguf","lfs":{"oid":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","size":9}}]`))
	f.Add([]byte(`[{"type":"file","oid":"0123456789abcdef0123456789abcdef01234567","size":5,"path":"../../x"}]`))
	cache := Options{Cache: "cache"}.repo("org/repo")
	f.Fuzz(func(t *testing.T, data []byte) {
		var entries []treeEntry
		if json.Unmarshal(data, &entries) != nil {
			return
		}
		for _, e := range entries {
			file, err := e.file()
			if err != nil {
				continue
			}
			for path, root := range map[string]string{cache.pointer(commitA, file): cache.snapshot(commitA), cache.blob(file.Hash): cache.root, cache.lock(file.Hash): cache.locks} {
				if !strings.HasPrefix(path, root+"/") || strings.Contains(path+"/", "/../") {
					t.Errorf("%+v leads to %s", e, path)
				}
			}
			if file.Size < 0 {
				t.Errorf("%+v has a size of %d", e, file.Size)
			}
		}
	})
}

// FuzzNextPage: the Link header is of any form.
func FuzzNextPage(f *testing.F) {
	for _, link := range []string{`</a?cursor=2>; rel="next"`, `<https://h/x>; rel="prev", <https://h/y>; rel="next"`, "<", `<>; rel="next"`, `; rel="next"`} {
		f.Add(link)
	}
	at := &url.URL{Scheme: "https", Host: "h", Path: "/x"}
	f.Fuzz(func(t *testing.T, link string) {
		if next := nextPage(at, http.Header{"Link": {link}}); next != nil && !strings.Contains(link, `rel="next"`) {
			t.Errorf("%q leads to %s", link, next)
		}
	})
}
