package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/hub/hubtest"
)

// A download that was cut goes on where it was, by one request for the rest.
func TestResume(t *testing.T) {
	repo := ggufRepo()
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
	c := newClient(t, h)
	data := repo.Files["model-Q4_K_M.gguf"]
	partial := c.options.repo("org/repo").partial(hubtest.SHA256(data))

	ctx, interrupt := context.WithCancel(t.Context())
	c.options.Report = func(p Progress) {
		if p.Done > 100_000 {
			interrupt()
		}
	}
	_, err := c.Pull(ctx, reference(t, "org/repo"))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on from there") {
		t.Fatalf("interrupted: %v", err)
	}
	info, err := os.Stat(partial)
	if err != nil || info.Size() < 100_000 || info.Size() >= int64(len(data)) {
		t.Fatalf("the partial file: %v, %v", info, err)
	}
	c.options.Report = nil
	before := len(h.Requests())
	p := pull(t, c, "org/repo")
	if got, err := os.ReadFile(p.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the resumed file differs: %v", err)
	}
	if p.Fetched != int64(len(data))-info.Size() {
		t.Errorf("fetched %d bytes, want %d", p.Fetched, int64(len(data))-info.Size())
	}
	last := h.Requests()[len(h.Requests())-1]
	if want := fmt.Sprintf("bytes=%d-", info.Size()); last.Range != want {
		t.Errorf("the store was asked for the range %q, want %q", last.Range, want)
	}
	if n := len(h.Requests()) - before; n > 7 {
		t.Errorf("%d requests", n)
	}
}

func TestDamagedPartialIsFetchedAnew(t *testing.T) {
	repo := ggufRepo()
	h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
	data := repo.Files["model-Q4_K_M.gguf"]
	for _, size := range []int{1, 5000, len(data), len(data) + 1} {
		c := newClient(t, h)
		partial := c.options.repo("org/repo").partial(hubtest.SHA256(data))
		if err := os.MkdirAll(filepath.Dir(partial), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(partial, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(pull(t, c, "org/repo").Path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("a partial file of %d zeros: the file differs: %v", size, err)
		}
	}
}

// A store that breaks off again and again, and one that does not know ranges.
func TestFlakyServer(t *testing.T) {
	repo := ggufRepo()
	data := repo.Files["model-Q4_K_M.gguf"]
	cut := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&cutting{ResponseWriter: w, left: 150_000}, r)
	}
	for name, wrap := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"breaks off": cut,
		"no ranges": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			broken := r.Header.Get("Range") == ""
			r.Header.Del("Range")
			if broken {
				cut(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t, map[string]*hubtest.Repo{"org/repo": repo})
			h.WrapStore = wrap
			c := newClient(t, h)
			var notes []string
			c.options.Report = func(p Progress) {
				if p.Note != "" {
					notes = append(notes, p.Note)
				}
			}
			if got, err := os.ReadFile(pull(t, c, "org/repo").Path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("the file differs: %v", err)
			}
			if len(notes) == 0 || !strings.Contains(notes[0], "trying again in 1s") {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}

// cutting ends a response's connection after some bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}
