// Package sdk holds the SDKs' sources, so that the program alone can make and
// build a plugin.
package sdk

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed go/*.go go/README.md
//go:embed zig/*.zig zig/wasmeter.h zig/README.md
//go:embed rust/Cargo.toml rust/src/*.rs rust/README.md
//go:embed assemblyscript/*.ts assemblyscript/package.json assemblyscript/README.md
var sources embed.FS

// Copy writes the SDK of one folder, such as zig, below dir, which it makes. Tests
// of the SDK stay behind: they need more than a plugin's folder has.
func Copy(folder, dir string) error {
	source, err := fs.Sub(sources, folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		to := filepath.Join(dir, filepath.FromSlash(path))
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(to, 0o755)
		case strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}
