package hub

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// defaultRevision is the branch that is meant where none is named.
const defaultRevision = "main"

// Reference names a model of the hub: org/repo[:file][@revision].
type Reference struct {
	// Repo is organisation and repository: HuggingFaceTB/SmolLM2-135M-Instruct.
	Repo string
	// File is a file's name, a quantisation such as Q4_K_M, or "safetensors".
	// Empty leaves the choice to Pull.
	File string
	// Revision is a branch, a tag or a commit.
	Revision string
}

var (
	repoPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./+-]{0,254}$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ParseReference reads org/repo[:file][@revision], also as it is copied from a
// browser: https://huggingface.co/org/repo, hf.co/org/repo.
func ParseReference(text string) (Reference, error) {
	r := Reference{Revision: defaultRevision}
	rest, revision, named := cutLast(withoutHost(text), '@')
	if named {
		r.Revision = revision
	}
	file := false
	if r.Repo, r.File, file = strings.Cut(rest, ":"); file && r.File == "" {
		return r, fmt.Errorf("model %q: no file after the colon; write org/repo:file, or org/repo for a choice", text)
	}
	switch {
	case !repoPattern.MatchString(r.Repo), strings.Contains(r.Repo, ".."), strings.Contains(r.Repo, "--"):
		return r, fmt.Errorf("model %q: %q is not the name of a repository; write org/repo, org/repo:Q4_K_M, org/repo:file.gguf or org/repo@revision", text, r.Repo)
	case named && strings.Contains(revision, ":"):
		return r, fmt.Errorf("model %q: the file comes before the revision: org/repo:file@revision", text)
	case !revisionPattern.MatchString(r.Revision), !local(r.Revision):
		return r, fmt.Errorf("model %q: %q is not a branch, a tag or a commit", text, r.Revision)
	case file && !local(r.File):
		return r, fmt.Errorf("model %q: %q is not a file of the repository", text, r.File)
	}
	return r, nil
}

func withoutHost(text string) string {
	bare := strings.TrimPrefix(text, "https://")
	for _, host := range []string{"huggingface.co/", "hf.co/"} {
		if rest, ok := strings.CutPrefix(bare, host); ok {
			return strings.TrimSuffix(rest, "/")
		}
	}
	return text
}

func cutLast(text string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(text, sep); i >= 0 {
		return text[:i], text[i+1:], true
	}
	return text, "", false
}

// String gives the text that ParseReference reads.
func (r Reference) String() string {
	text := r.Repo
	if r.File != "" {
		text += ":" + r.File
	}
	if r.Revision != defaultRevision {
		text += "@" + r.Revision
	}
	return text
}

// local tells whether a name with slashes stays below the folder it is put
// into, on every system: no part is empty, a dot or two, or holds a backslash,
// a colon or a control character.
func local(name string) bool {
	const longest = 255 // bytes of a part, on the usual file systems
	if len(name) > 1024 || !filepath.IsLocal(filepath.FromSlash(name)) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > longest {
			return false
		}
		if strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == ':' }) {
			return false
		}
	}
	return true
}
