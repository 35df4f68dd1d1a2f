package hub

import (
	"strings"
	"testing"
)

func TestParseReference(t *testing.T) {
	for text, want := range map[string]Reference{
		"org/repo":                       {"org/repo", "", "main"},
		"Org-1/Re.po_2":                  {"Org-1/Re.po_2", "", "main"},
		"org/repo:Q4_K_M":                {"org/repo", "Q4_K_M", "main"},
		"org/repo:sub/a file.gguf":       {"org/repo", "sub/a file.gguf", "main"},
		"org/repo@v1.0":                  {"org/repo", "", "v1.0"},
		"org/repo:x.gguf@refs/pr/3":      {"org/repo", "x.gguf", "refs/pr/3"},
		"org/repo:with@sign.gguf@branch": {"org/repo", "with@sign.gguf", "branch"},
	} {
		got, err := ParseReference(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%s: written as %s", text, got)
		}
	}
	for _, text := range []string{"https://huggingface.co/org/repo", "https://huggingface.co/org/repo/", "huggingface.co/org/repo", "hf.co/org/repo"} {
		if got, err := ParseReference(text); err != nil || got.String() != "org/repo" {
			t.Errorf("%s: got %+v, %v; want org/repo", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                      "not the name of a repository",
		"repo":                  "not the name of a repository",
		"/repo":                 "not the name of a repository",
		"org/":                  "not the name of a repository",
		"a/b/c":                 "not the name of a repository",
		"../repo":               "not the name of a repository",
		"org/..":                "not the name of a repository",
		"org/a..b":              "not the name of a repository",
		"org/a--b":              "not the name of a repository",
		"org/re po":             "not the name of a repository",
		"org/repo:":             "no file after the colon",
		"org/repo:../x":         "not a file of the repository",
		"org/repo:/x":           "not a file of the repository",
		"org/repo:a:b":          "not a file of the repository",
		"org/repo@":             "not a branch",
		"org/repo@../x":         "not a branch",
		"org/repo@a//b":         "not a branch",
		"org/repo@v1:x":         "org/repo:file@revision",
		"org/repo:x\n":          "not a file of the repository",
		"https://host/org/repo": "not the name of a repository",
	} {
		if got, err := ParseReference(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// FuzzParseReference: whatever is accepted stays below the cache.
func FuzzParseReference(f *testing.F) {
	for _, text := range []string{"org/repo", "org/repo:Q4_K_M@main", "a/b@refs/pr/1", "../..", "a/b:..", "a/b:c/../d@e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReference(text)
		if err != nil {
			return
		}
		cache := Options{Cache: "cache"}.repo(r.Repo)
		for _, path := range []string{cache.reference(r.Revision), cache.pointer(commitA, File{Path: first(r.File, "x")}), cache.lock("x")} {
			if !strings.HasPrefix(path, "cache") || strings.Contains(path, "..") && strings.Contains("/"+path+"/", "/../") {
				t.Errorf("%q leads to %s", text, path)
			}
		}
		if again, err := ParseReference(r.String()); err != nil || again != r {
			t.Errorf("%q is written as %q, which is %+v, %v", text, r.String(), again, err)
		}
	})
}
