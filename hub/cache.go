package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// repoCache is the part of the cache that holds one repository. See the
// package's comment for its layout.
type repoCache struct {
	root  string // models--org--repo
	locks string // .locks/models--org--repo
}

func (o Options) repo(name string) repoCache {
	folder := "models--" + strings.ReplaceAll(name, "/", "--")
	return repoCache{filepath.Join(o.Cache, folder), filepath.Join(o.Cache, ".locks", folder)}
}

func (r repoCache) blob(hash string) string    { return filepath.Join(r.root, "blobs", hash) }
func (r repoCache) partial(hash string) string { return r.blob(hash) + ".incomplete" }
func (r repoCache) lock(hash string) string    { return filepath.Join(r.locks, hash+".lock") }
func (r repoCache) snapshot(c string) string   { return filepath.Join(r.root, "snapshots", c) }
func (r repoCache) reference(rev string) string {
	return filepath.Join(r.root, "refs", filepath.FromSlash(rev))
}

func (r repoCache) pointer(commit string, f File) string {
	return filepath.Join(r.snapshot(commit), filepath.FromSlash(f.Path))
}

// has tells whether a file of a snapshot is there with its size. Whoever put it
// there had checked its hash.
func (r repoCache) has(commit string, f File) bool {
	info, err := os.Stat(r.pointer(commit, f))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// remember writes the commit of a branch or tag. One that is a commit needs
// none.
func (r repoCache) remember(revision, commit string) error {
	if revision == commit {
		return nil
	}
	path := r.reference(revision)
	if old, err := os.ReadFile(path); err == nil && string(old) == commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("remember the commit of %s: %w", revision, err)
	}
	if err := os.WriteFile(path, []byte(commit), 0o666); err != nil {
		return fmt.Errorf("remember the commit of %s: %w", revision, err)
	}
	return nil
}

// recall gives the commit of a revision as it was when the hub was last asked.
func (r repoCache) recall(revision string) (string, error) {
	if commitPattern.MatchString(revision) {
		return revision, nil
	}
	data, err := os.ReadFile(r.reference(revision))
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(data))
	if !commitPattern.MatchString(commit) {
		return "", fmt.Errorf("%s holds %.60q, which is no commit", r.reference(revision), commit)
	}
	return commit, nil
}

// files lists what of a snapshot is on disk; links to nothing are left out.
func (r repoCache) files(commit string) ([]File, error) {
	var files []File
	root := r.snapshot(commit)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, File{Path: filepath.ToSlash(name), Size: info.Size()})
		}
		return nil
	})
	return files, err
}

// link puts a blob into a snapshot, by a link relative to the file, so that the
// cache can be moved. Where links can't be made, as on Windows for most users,
// the blob itself is moved there: so does huggingface_hub.
func (r repoCache) link(commit string, f File) error {
	pointer, blob := r.pointer(commit, f), r.blob(f.Hash)
	folder := filepath.Dir(pointer)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(folder, blob)
	if err != nil {
		return err
	}
	if err := os.Remove(pointer); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, pointer); err == nil {
		return nil
	}
	return os.Rename(blob, pointer)
}
