// Package toolchain builds plugins: it finds out what language a folder is in,
// looks for a compiler of the right version, and calls it so that the same
// sources give the same bytes wherever they lie.
package toolchain

import (
	"fmt"
	"slices"
	"strings"
)

// Language is one that there is an SDK for.
type Language string

// Languages, by the words of --lang.
const (
	Go             Language = "go"
	AssemblyScript Language = "as"
	Zig            Language = "zig"
	Rust           Language = "rust"
	C              Language = "c"
)

// Languages are all of them, in the order in which they are listed.
func Languages() []Language { return []Language{Go, AssemblyScript, Zig, Rust, C} }

// ParseLanguage reads a language as people write it.
func ParseLanguage(word string) (Language, error) {
	l := Language(word)
	if word == "assemblyscript" {
		l = AssemblyScript
	}
	if !slices.Contains(Languages(), l) {
		words := make([]string, len(Languages()))
		for i, l := range Languages() {
			words[i] = string(l)
		}
		return "", fmt.Errorf("language %q is unknown; use one of %s", word, strings.Join(words, ", "))
	}
	return l, nil
}

// Title is the language's own name.
func (l Language) Title() string {
	return map[Language]string{Go: "Go", AssemblyScript: "AssemblyScript", Zig: "Zig", Rust: "Rust", C: "C"}[l]
}

// extension is that of the language's sources.
func (l Language) extension() string {
	switch l {
	case AssemblyScript:
		return ".ts"
	case Rust:
		return ".rs"
	}
	return "." + string(l)
}

// isSource reports whether a file of that name may be a plugin's source.
func (l Language) isSource(name string) bool {
	return strings.HasSuffix(name, l.extension()) && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".d.ts")
}

// sdkFolder is the language's folder in package sdk.
func (l Language) sdkFolder() string {
	switch l {
	case AssemblyScript:
		return "assemblyscript"
	case C:
		return "zig" // C's is a header of it
	}
	return string(l)
}
