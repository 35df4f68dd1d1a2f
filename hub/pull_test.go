package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/hub/hubtest"
)

const (
	commitA = "0123456789abcdef0123456789abcdef01234567"
	token   = "hf_secret"
)

// noise is a file that does not repeat itself.
func noise(n int) []byte {
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(data) // it does not fail
	return data
}

func ggufRepo() *hubtest.Repo {
	return &hubtest.Repo{Commit: commitA, Branches: []string{"refs/pr/1", "v1"}, Files: map[string][]byte{
		"README.md":             []byte("a model\n"),
		"sub/model-Q8_0.gguf":   noise(70_000),
		"model-Q4_K_M.gguf":     noise(700_000),
		"mmproj-model-f16.gguf": noise(10),
	}}
}

func folderRepo() *hubtest.Repo {
	return &hubtest.Repo{Commit: commitA, Files: map[string][]byte{
		"config.json":                      []byte(`{"model_type": "llama"}`),
		"tokenizer.json":                   []byte(`{}`),
		"model-00001-of-00002.safetensors": noise(3000),
		"model-00002-of-00002.safetensors": noise(2000),
		"model.safetensors.index.json":     []byte(`{"weight_map": {}}`),
		"onnx/model.onnx":                  noise(50),
		"README.md":                        []byte("a folder\n"),
	}}
}

// newClient makes a client of a hub with an empty cache, that never waits.
func newClient(t *testing.T, h *hubtest.Hub) *Client {
	t.Helper()
	c, err := New(Options{Endpoint: h.URL, Cache: t.TempDir(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}

func reference(t *testing.T, text string) Reference {
	t.Helper()
	r, err := ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pull(t *testing.T, c *Client, text string) Pulled {
	t.Helper()
	p, err := c.Pull(t.Context(), reference(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refused checks that a pull fails and says all of these.
func refused(t *testing.T, c *Client, text string, want ...string) {
	t.Helper()
	p, err := c.Pull(t.Context(), reference(t, text))
	if err == nil {
		t.Fatalf("pulled %+v, want a refusal with %q", p, want)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is\n  %v\nwant part %q", err, part)
		}
	}
	if strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "signature") {
		t.Errorf("the error tells a secret: %v", err)
	}
}

// layout lists a cache: files with their length, links with their target.
func layout(t *testing.T, cache string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(cache, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(cache, path)
		name = filepath.ToSlash(name)
		if entry.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			out = append(out, name+" -> "+filepath.ToSlash(target))
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		out = append(out, fmt.Sprintf("%s %d", name, info.Size()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The layout is the one of huggingface_hub's guide "Understand caching".
func TestPullLayout(t *testing.T) {
	repo := ggufRepo()
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
	c := newClient(t, h)
	p := pull(t, c, "org/repo:Q8_0@v1")
	data := repo.Files["sub/model-Q8_0.gguf"]
	sum := hubtest.SHA256(data)
	want := []string{
		".locks/models--org--repo/" + sum + ".lock 0",
		"models--org--repo/blobs/" + sum + " 70000",
		"models--org--repo/refs/v1 40",
		"models--org--repo/snapshots/" + commitA + "/sub/model-Q8_0.gguf -> ../../../blobs/" + sum,
	}
	if got := layout(t, c.options.Cache); !slices.Equal(got, want) {
		t.Errorf("the cache holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, err := os.ReadFile(p.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s holds %d bytes, %v; want the file's %d", p.Path, len(got), err, len(data))
	}
	if p.Commit != commitA || p.Fetched != 70_000 {
		t.Errorf("pulled %+v", p)
	}
	for _, r := range h.Requests() {
		own := "http://"+r.Host == h.URL
		if own && r.Token != token || !own && r.Token != "" {
			t.Errorf("the token %q went along with %s %s to %s", r.Token, r.Method, r.Path, r.Host)
		}
	}

	before := len(h.Requests())
	if again := pull(t, c, "org/repo:Q8_0@v1"); again.Path != p.Path || again.Fetched != 0 {
		t.Errorf("again: %+v", again)
	}
	for _, r := range h.Requests()[before:] {
		if !strings.HasPrefix(r.Path, "/api/") {
			t.Errorf("the cached file was asked for again: %+v", r)
		}
	}
	before = len(h.Requests())
	pull(t, c, "org/repo:Q8_0@"+commitA)
	if n := len(h.Requests()) - before; n != 0 {
		t.Errorf("a file of a commit that is in the cache took %d requests, want none", n)
	}
}

func TestPullFolder(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/folder": folderRepo()})
	c := newClient(t, h)
	p := pull(t, c, "org/folder")
	entries, err := os.ReadDir(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json"}
	if !slices.Equal(names, want) {
		t.Errorf("%s holds %q, want %q", p.Path, names, want)
	}
}

// A list goes on at the endpoint, whatever host it names: a mirror passes on what
// the hub says, and the token stays where it is.
func TestListOfMirror(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()})
	pages := 0
	h.Wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&mirroring{w, h.URL}, r)
		if strings.Contains(r.URL.Path, "/tree/") {
			pages++
		}
	}
	pull(t, newClient(t, h), "org/repo:Q8_0")
	if pages < 2 {
		t.Errorf("%d pages of files were asked for, want several", pages)
	}
}

// mirroring names another host in the Link header.
type mirroring struct {
	http.ResponseWriter
	own string
}

func (m *mirroring) Write(b []byte) (int, error) {
	if link := m.Header().Get("Link"); link != "" {
		m.Header().Set("Link", strings.ReplaceAll(link, m.own, "https://elsewhere.invalid"))
	}
	return m.ResponseWriter.Write(b)
}

// A folder that is of no use costs its small files only.
func TestInspect(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/folder": folderRepo(), "org/repo": ggufRepo()})
	c := newClient(t, h)
	c.options.Inspect = func(folder string) error {
		if data, err := os.ReadFile(filepath.Join(folder, "config.json")); err != nil || len(data) == 0 {
			t.Errorf("config.json holds %q, %v", data, err)
		}
		return errors.New("not this one")
	}
	refused(t, c, "org/folder", "its weights are not fetched: not this one")
	for _, r := range h.Requests() {
		if strings.Contains(r.Path, "resolve") && strings.HasSuffix(r.Path, ".safetensors") {
			t.Errorf("fetched %s", r.Path)
		}
	}
	pull(t, c, "org/repo") // a file is not looked at
}

// A connection that dies without a word ends in an error.
func TestStall(t *testing.T) {
	body, silent := io.Pipe()
	defer silent.Close()
	r := newStallingReader(body, time.Millisecond)
	defer r.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "no byte for 1ms") {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

func TestRevisionWithSlashes(t *testing.T) {
	c := newClient(t, hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()}))
	pull(t, c, "org/repo@refs/pr/1")
	if got, err := os.ReadFile(filepath.Join(c.options.Cache, "models--org--repo", "refs", "refs", "pr", "1")); err != nil || string(got) != commitA {
		t.Errorf("the revision's file holds %q, %v", got, err)
	}
}

func TestBusyServer(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()})
	n := 0
	h.Wrap = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n++; n%2 == 1 {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	}
	c := newClient(t, h)
	var waits []time.Duration
	c.pause = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	pull(t, c, "org/repo")
	if len(waits) < 3 || slices.Min(waits) != 7*time.Second || slices.Max(waits) != 7*time.Second {
		t.Errorf("waited %v, want 7 s each time, as the server asks", waits)
	}
	h.Wrap = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		http.Error(w, "broken", http.StatusBadGateway)
	}
	c.options.Cache = t.TempDir()
	refused(t, c, "org/repo", "502 Bad Gateway", "is not in the cache")
}

func TestOffline(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo(), "org/folder": folderRepo()})
	c := newClient(t, h)
	online := pull(t, c, "org/repo:Q8_0")
	folder := pull(t, c, "org/folder")
	before := len(h.Requests())
	c.options.Offline = true
	if p := pull(t, c, "org/repo"); p.Path != online.Path {
		t.Errorf("offline: %+v, want %s", p, online.Path)
	}
	if p := pull(t, c, "org/folder"); p.Path != folder.Path {
		t.Errorf("offline: %+v, want %s", p, folder.Path)
	}
	refused(t, c, "org/repo:Q4_K_M", "HF_HUB_OFFLINE is set", `no GGUF file "Q4_K_M"`, "sub/model-Q8_0.gguf")
	refused(t, c, "org/repo@v1", "HF_HUB_OFFLINE is set", "revision v1 is not in the cache")
	refused(t, c, "org/other", "is not in the cache")
	if n := len(h.Requests()) - before; n != 0 {
		t.Errorf("offline, %d requests were made", n)
	}

	// A hub that is gone is as good as none.
	c.options.Offline = false
	gone, err := New(Options{Endpoint: "http://127.0.0.1:1", Cache: c.options.Cache})
	if err != nil {
		t.Fatal(err)
	}
	gone.pause = c.pause
	if p := pull(t, gone, "org/repo"); p.Path != online.Path {
		t.Errorf("without a hub: %+v, want %s", p, online.Path)
	}
	refused(t, gone, "org/other", "127.0.0.1:1", "is not in the cache")
}

func TestAccess(t *testing.T) {
	private, gated := ggufRepo(), ggufRepo()
	private.Token, gated.Token, gated.Gated = "hf_other", "hf_other", true
	mine := ggufRepo()
	mine.Token = token
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/private": private, "org/gated": gated, "org/mine": mine})
	c := newClient(t, h)
	pull(t, c, "org/mine")
	refused(t, c, "org/gated", "401", "accept its terms on "+h.URL+"/org/gated", "HF_TOKEN")
	refused(t, c, "org/private", "401", "is the name right?", "HF_TOKEN")
	refused(t, c, "org/none", "Repository not found")
	refused(t, c, "org/mine@v9", "RevisionNotFound", `no revision "v9"`)
}

func TestNotEnoughRoom(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()})
	c := newClient(t, h)
	c.free = func(string) (uint64, bool) { return 699_999, true }
	refused(t, c, "org/repo", "700000 bytes (683.6 KiB) are needed", "699999 (683.6 KiB) are free", "HF_HUB_CACHE")
	for _, r := range h.Requests() {
		if strings.Contains(r.Path, "resolve") {
			t.Errorf("asked for %s", r.Path)
		}
	}
	c.free = func(string) (uint64, bool) { return 700_000, true }
	pull(t, c, "org/repo")
}

// Two clients of one cache: the second waits and finds the file.
func TestTwoAtOnce(t *testing.T) {
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()})
	a := newClient(t, h)
	b := newClient(t, h)
	b.options.Cache = a.options.Cache
	waiting, fetching := make(chan struct{}), make(chan struct{})
	b.options.Report = func(p Progress) {
		if strings.Contains(p.Note, "another process") {
			close(waiting)
		}
	}
	begun := false
	a.options.Report = func(p Progress) {
		if !begun {
			begun = true
			close(fetching)
			<-waiting
		}
	}
	failed := make(chan error, 1)
	go func() {
		<-fetching
		_, err := b.Pull(t.Context(), Reference{Repo: "org/repo", Revision: "main"})
		failed <- err
	}()
	pull(t, a, "org/repo")
	if err := <-failed; err != nil {
		t.Error(err)
	}
	n := 0
	for _, r := range h.Requests() {
		if strings.Contains(r.Path, "resolve") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the file was asked for %d times, want once", n)
	}
}

// A cache that can't be written serves what it has.
func TestReadOnlyCache(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere: run as another user")
	}
	c := newClient(t, hubtest.New(t, map[string]*hubtest.Repo{"org/repo": ggufRepo()}))
	p := pull(t, c, "org/repo")
	root := filepath.Join(c.options.Cache, "models--org--repo")
	if err := os.Chmod(root, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(root, 0o700) })
	if again := pull(t, c, "org/repo"); again.Path != p.Path {
		t.Errorf("got %+v, want %s", again, p.Path)
	}
}
