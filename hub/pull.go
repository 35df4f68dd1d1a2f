package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
)

// Pulled is a model in the cache.
type Pulled struct {
	// Path is a GGUF file, or the folder of safetensors.
	Path string
	// Commit is the one that it is of.
	Commit string
	// Fetched is the number of bytes that were not in the cache before.
	Fetched int64
}

// Pull brings a model into the cache, as far as it is not there, and tells where
// it is. If the hub can't be reached, or must not be, what the cache has of that
// revision does. When ctx ends, what came so far is kept for the next time.
func (c *Client) Pull(ctx context.Context, r Reference) (Pulled, error) {
	pulled, err := c.pull(ctx, r)
	if err != nil {
		return Pulled{}, fmt.Errorf("pull %s: %w", r, err)
	}
	return pulled, nil
}

func (c *Client) pull(ctx context.Context, r Reference) (Pulled, error) {
	if c.options.Offline {
		pulled, err := c.cached(r)
		if err != nil {
			return pulled, fmt.Errorf("HF_HUB_OFFLINE is set, and %w", err)
		}
		return pulled, nil
	}
	if commitPattern.MatchString(r.Revision) && r.File != "" {
		// A commit does not change, so a file of it that is there is the one.
		if pulled, err := c.cached(r); err == nil {
			return pulled, nil
		}
	}
	commit, files, err := c.list(ctx, r)
	if err != nil {
		if !temporary(err) || ctx.Err() != nil {
			return Pulled{}, c.explain(r, err)
		}
		pulled, cacheErr := c.cached(r)
		if cacheErr != nil {
			return Pulled{}, fmt.Errorf("%w; and %w", err, cacheErr)
		}
		c.note("%v; taking what is in the cache, commit %.12s", err, pulled.Commit)
		return pulled, nil
	}
	chosen, folder, err := choose(files, r.File)
	if err != nil {
		return Pulled{}, err
	}
	return c.bring(ctx, r, commit, chosen, folder)
}

// list asks for a revision's commit and files.
func (c *Client) list(ctx context.Context, r Reference) (commit string, files []File, err error) {
	commit = r.Revision
	if !commitPattern.MatchString(commit) {
		if commit, err = c.commit(ctx, r); err != nil {
			return "", nil, err
		}
	}
	files, err = c.tree(ctx, r.Repo, commit)
	return commit, files, err
}

// bring fetches the files that are missing, one after the other.
func (c *Client) bring(ctx context.Context, r Reference, commit string, files []File, folder bool) (Pulled, error) {
	cache := c.options.repo(r.Repo)
	pulled := Pulled{Path: cache.snapshot(commit), Commit: commit}
	if !folder {
		pulled.Path = cache.pointer(commit, files[0])
	}
	var missing []File
	for _, f := range files {
		if !cache.has(commit, f) {
			missing = append(missing, f)
			pulled.Fetched += cache.lacking(f)
		}
	}
	if len(missing) > 0 { // otherwise the cache may be one that can only be read
		if err := c.checkRoom(cache, pulled.Fetched); err != nil {
			return Pulled{}, err
		}
	}
	inspected := !folder || c.options.Inspect == nil
	for _, f := range missing {
		if !inspected && shardPattern.MatchString(f.Path) {
			inspected = true
			if err := c.options.Inspect(pulled.Path); err != nil {
				return Pulled{}, fmt.Errorf("its weights are not fetched: %w", err)
			}
		}
		d := download{client: c, repo: r, cache: cache, commit: commit, file: f}
		if err := d.run(ctx); err != nil {
			return Pulled{}, c.explain(r, err)
		}
		c.report(Progress{File: f.Path, Done: f.Size, Size: f.Size})
	}
	if err := cache.remember(r.Revision, commit); err != nil && len(missing) > 0 {
		return Pulled{}, err
	}
	return pulled, nil
}

// lacking is how many bytes of a file are neither a blob nor part of one.
func (r repoCache) lacking(f File) int64 {
	if info, err := os.Stat(r.blob(f.Hash)); err == nil && info.Size() == f.Size {
		return 0
	}
	if info, err := os.Stat(r.partial(f.Hash)); err == nil && info.Size() <= f.Size {
		return f.Size - info.Size()
	}
	return f.Size
}

// checkRoom refuses a download for which the disk is too small before it
// begins.
func (c *Client) checkRoom(cache repoCache, need int64) error {
	if err := os.MkdirAll(filepath.Join(cache.root, "blobs"), 0o777); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	free, known := c.free(cache.root)
	if known && uint64(need) > free {
		return fmt.Errorf("not enough room in %s: %d bytes (%s) are needed, %d (%s) are free; remove something, or set HF_HUB_CACHE to a folder on another disk",
			c.options.Cache, need, SizeText(need), free, SizeText(int64(min(free, 1<<62))))
	}
	return nil
}

// cached finds a model in the cache.
func (c *Client) cached(r Reference) (Pulled, error) {
	cache := c.options.repo(r.Repo)
	commit, err := cache.recall(r.Revision)
	if errors.Is(err, fs.ErrNotExist) {
		return Pulled{}, fmt.Errorf("revision %s is not in the cache, %s", r.Revision, c.options.Cache)
	}
	if err != nil {
		return Pulled{}, err
	}
	files, err := cache.files(commit)
	if err != nil {
		return Pulled{}, fmt.Errorf("revision %s is not in the cache: %w", r.Revision, err)
	}
	chosen, folder, err := choose(files, r.File)
	if err != nil {
		return Pulled{}, fmt.Errorf("what the cache has of it does not do: %w", err)
	}
	pulled := Pulled{Path: cache.snapshot(commit), Commit: commit}
	if !folder {
		pulled.Path = cache.pointer(commit, chosen[0])
	}
	return pulled, nil
}

// explain adds to a refusal what can be done about it. The hub answers 401 for
// repositories that do not exist as for those that the token may not see.
func (c *Client) explain(r Reference, err error) error {
	var status *statusError
	if !errors.As(err, &status) {
		return err
	}
	page := c.options.Endpoint + "/" + r.Repo
	switch {
	case status.code == "GatedRepo":
		return fmt.Errorf("%w; accept its terms on %s and set HF_TOKEN to a token of that account", err, page)
	case status.code == "RevisionNotFound":
		return fmt.Errorf("%w; there is no revision %q", err, r.Revision)
	case status.status == http.StatusUnauthorized && c.options.Token == "", status.code == "RepoNotFound":
		return fmt.Errorf("%w; is the name right? see %s; a private or gated repository needs HF_TOKEN", err, page)
	case status.status == http.StatusUnauthorized, status.status == http.StatusForbidden:
		return fmt.Errorf("%w; the token in HF_TOKEN, or that of hf auth login, may not read it", err)
	case status.status == http.StatusNotFound:
		return fmt.Errorf("%w; is the name right? see %s", err, page)
	}
	return err
}
