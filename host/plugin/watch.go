package plugin

import (
	"os"
	"path/filepath"
)

// Watch tells which files are others than before. It is for one goroutine.
type Watch struct{ files map[string]watched }

// watched is a file as it was found: where its path leads, what the system
// says of it, and the hash of its content.
type watched struct {
	target string // with all symbolic links followed
	info   os.FileInfo
	hash   string // "" if it can't be read
}

// NewWatch begins with the files as they are.
func NewWatch(paths []string) *Watch {
	w := &Watch{files: make(map[string]watched)}
	w.Changed(paths)
	return w
}

// Changed lists those of paths whose content differs from what it was in the
// call before; a file that can't be read has none, so that each change is told
// once. A file that looks the same is not read again: where a Kubernetes
// ConfigMap is mounted, a change is another target of a link.
func (w *Watch) Changed(paths []string) []string {
	var changed []string
	for _, path := range paths {
		before, known := w.files[path]
		now := look(path, &before)
		w.files[path] = now
		if !known || now.hash != before.hash {
			changed = append(changed, path)
		}
	}
	return changed
}

// look finds what a file is; its content is read if it may differ from what
// it was before.
func look(path string, before *watched) watched {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return watched{}
	}
	info, err := os.Stat(target)
	if err != nil {
		return watched{}
	}
	w := watched{target: target, info: info}
	if before.hash != "" && target == before.target && os.SameFile(info, before.info) &&
		info.Size() == before.info.Size() && info.ModTime().Equal(before.info.ModTime()) {
		w.hash = before.hash
		return w
	}
	w.hash, err = moduleHash(&Spec{Path: target})
	if err != nil {
		return watched{}
	}
	return w
}
