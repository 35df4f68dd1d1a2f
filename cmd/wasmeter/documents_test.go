package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var documents = []string{"README.md", "ARCHITECTURE.md", "RATIONALE.md", "CHANGELOG.md", "examples/config/README.md", "plugins/billing/README.md"}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLinks: each relative link leads to a file, and each make target exists.
func TestLinks(t *testing.T) {
	link, target := regexp.MustCompile(`\]\(([^):]+)\)`), regexp.MustCompile("(?:`|\n)make ([a-z]+)[`\n]")
	makefile := readDocument(t, "Makefile")
	for _, name := range documents {
		text := readDocument(t, name)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, _, _ := strings.Cut(m[1], "#")
			if file == "" {
				continue // a place in the same document
			}
			if path := filepath.Join(moduleRoot, filepath.Dir(name), file); !exists(path) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s says make %s, which the Makefile has not", name, m[1])
			}
		}
	}
}

// TestRationaleAsksQuestions: each entry is a question, so that it can be found
// by what a reader asks.
func TestRationaleAsksQuestions(t *testing.T) {
	entries := regexp.MustCompile(`(?m)^### .*$`).FindAllString(readDocument(t, "RATIONALE.md"), -1)
	if len(entries) == 0 {
		t.Fatal("RATIONALE.md has no entries")
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry, "?") {
			t.Errorf("RATIONALE.md: %q is no question", entry)
		}
	}
}

// TestReadmeConfiguration: the configuration that README shows is good.
func TestReadmeConfiguration(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readDocument(t, "README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md shows no configuration")
	}
	for _, block := range blocks {
		file := filepath.Join(t.TempDir(), "wasmeter.yaml")
		if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, err := command(t, nil, "config", "check", file); code != 0 {
			t.Errorf("config check: %s\n%s", err, block[1])
		}
	}
}
