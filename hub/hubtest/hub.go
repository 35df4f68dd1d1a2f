// Package hubtest is a hub for tests: it answers the requests of package hub's
// protocol from memory. Large files are redirected to a second server, as the
// real hub does, which must never see a token.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Repo is a repository with one commit.
type Repo struct {
	// Commit is 40 hexadecimal digits.
	Commit string
	// Branches are names of the commit; "main" is always one.
	Branches []string
	// Files are the contents by path. Those with an ending of large files are kept
	// by LFS.
	Files map[string][]byte
	// Token is asked for, unless it is empty.
	Token string
	// Gated says that the token is missing because of terms to be accepted.
	Gated bool
}

// Hub is a running server.
type Hub struct {
	// URL is the endpoint.
	URL string
	// PageSize is the number of files on a page of a tree. Default 2.
	PageSize int
	// Wrap changes how requests to the hub are answered; nil leaves it.
	Wrap func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// WrapStore is Wrap of the store of large files.
	WrapStore func(w http.ResponseWriter, r *http.Request, next http.Handler)
	// StoreURL is the store's address.
	StoreURL string

	repos map[string]*Repo

	mu       sync.Mutex
	requests []Request
}

// Request is one that was answered.
type Request struct {
	Host, Method, Path, Range, Token, UserAgent string
}

// New starts a hub that ends with the test.
func New(t testing.TB, repos map[string]*Repo) *Hub {
	h := &Hub{PageSize: 2, repos: repos}
	store := httptest.NewServer(h.recorded(http.HandlerFunc(h.store), func() func(http.ResponseWriter, *http.Request, http.Handler) { return h.WrapStore }))
	t.Cleanup(store.Close)
	hub := httptest.NewServer(h.recorded(http.HandlerFunc(h.hub), func() func(http.ResponseWriter, *http.Request, http.Handler) { return h.Wrap }))
	t.Cleanup(hub.Close)
	h.URL, h.StoreURL = hub.URL, store.URL
	return h
}

func (h *Hub) recorded(next http.Handler, wrap func() func(http.ResponseWriter, *http.Request, http.Handler)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.requests = append(h.requests, Request{
			r.Host, r.Method, r.URL.EscapedPath(), r.Header.Get("Range"),
			strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.UserAgent(),
		})
		h.mu.Unlock()
		if f := wrap(); f != nil {
			f(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Endpoint is the environment's variable that points a program here. It is called once the test has set what it
// changes: the lock makes that visible to requests that another process sends,
// which the race detector sees no cause of.
func (h *Hub) Endpoint() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "HF_ENDPOINT=" + h.URL
}

// Requests lists what was asked so far.
func (h *Hub) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// refuse answers as the hub does: the reason stands in the header.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	http.Error(w, message, status)
}

func (h *Hub) hub(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	api := len(parts) > 2 && parts[0] == "api" && parts[1] == "models"
	if api {
		parts = parts[2:]
	}
	if len(parts) < 2 {
		refuse(w, http.StatusNotFound, "", "no such page")
		return
	}
	name := parts[0] + "/" + parts[1]
	repo, ok := h.repos[name]
	switch {
	case !ok:
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
	case repo.Token != "" && r.Header.Get("Authorization") != "Bearer "+repo.Token:
		code := "RepoNotFound"
		if repo.Gated {
			code = "GatedRepo"
		}
		refuse(w, http.StatusUnauthorized, code, "Access to model "+name+" is restricted")
	case api && len(parts) == 4 && parts[2] == "revision":
		h.revision(w, name, repo, parts[3])
	case api && len(parts) == 4 && parts[2] == "tree":
		h.tree(w, r, repo, parts[3])
	case !api && len(parts) > 4 && parts[2] == "resolve":
		h.resolve(w, r, name, repo, parts[3], strings.Join(parts[4:], "/"))
	default:
		refuse(w, http.StatusNotFound, "", "no such page")
	}
}

func (repo *Repo) has(revision string) bool {
	return revision == "main" || revision == repo.Commit || slices.Contains(repo.Branches, revision)
}

func (h *Hub) revision(w http.ResponseWriter, name string, repo *Repo, revision string) {
	if !repo.has(revision) {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": name, "modelId": name, "sha": repo.Commit, "private": false, "tags": []string{}, "downloads": 1, "likes": 0, "siblings": []any{}})
}

// Paths lists a repository's files in order.
func (repo *Repo) Paths() []string {
	var paths []string
	for p := range repo.Files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request, repo *Repo, revision string) {
	if !repo.has(revision) {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	}
	entries := []map[string]any{{"type": "directory", "oid": strings.Repeat("1", 40), "size": 0, "path": "a-folder"}}
	for _, path := range repo.Paths() {
		data := repo.Files[path]
		entry := map[string]any{"type": "file", "oid": BlobID(data), "size": len(data), "path": path}
		if Large(path) {
			entry["lfs"] = map[string]any{"oid": SHA256(data), "size": len(data), "pointerSize": 134}
			entry["oid"] = strings.Repeat("a", 40) // of the pointer, which nobody wants
		}
		entries = append(entries, entry)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	from = min(max(from, 0), len(entries))
	to := min(from+h.PageSize, len(entries))
	if to < len(entries) {
		next := *r.URL
		q := next.Query()
		q.Set("cursor", strconv.Itoa(to))
		next.RawQuery = q.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="next"`, h.URL, next.String()))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(entries[from:to])
}

func (h *Hub) resolve(w http.ResponseWriter, r *http.Request, name string, repo *Repo, revision, path string) {
	data, ok := repo.Files[path]
	switch {
	case !repo.has(revision):
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+revision)
		return
	case !ok:
		w.Header().Set("X-Repo-Commit", repo.Commit)
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("X-Repo-Commit", repo.Commit)
	if !Large(path) {
		w.Header().Set("Etag", `"`+BlobID(data)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		return
	}
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
	w.Header().Set("X-Linked-Etag", `"`+SHA256(data)+`"`)
	http.Redirect(w, r, h.StoreURL+"/"+name+"/"+SHA256(data)+"?signature=secret", http.StatusFound)
}

// store answers for the content store: it knows bytes by their hash, and its
// own ETag is of no use to anyone.
func (h *Hub) store(w http.ResponseWriter, r *http.Request) {
	for _, repo := range h.repos {
		for _, data := range repo.Files {
			if strings.HasSuffix(r.URL.Path, "/"+SHA256(data)) {
				w.Header().Set("Etag", `"of-the-store"`)
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
				return
			}
		}
	}
	http.Error(w, "no such object", http.StatusNotFound)
}

// Large tells whether a file is kept by LFS.
func Large(path string) bool {
	return strings.HasSuffix(path, ".gguf") || strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".bin")
}

// SHA256 is the hash of a large file.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// BlobID is git's hash of a small file.
func BlobID(data []byte) string {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data))
	return hex.EncodeToString(sum[:])
}
