package toolchain

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wasmeter/wasmeter/sdk"
)

// SDKFolder is the folder of a plugin that holds the SDK it is built with. A
// plugin without one is built with the SDK of this program.
const SDKFolder = "wasmeter"

// Project is the sources of one plugin.
type Project struct {
	Language Language
	// Dir is the plugin's folder, an absolute path.
	Dir string
	// Entry is the file in it that is compiled first; of a plugin in Go, whose
	// package is the folder, main.go.
	Entry string
	// Name is the plugin's: its module is Name.wasm.
	Name string
}

// Find tells what plugin a folder holds. path may also be the plugin's first
// source file, where a folder has several.
func Find(path string) (*Project, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return findIn(absolute, path)
	}
	for _, l := range Languages() {
		if strings.HasSuffix(absolute, l.extension()) {
			return newProject(l, filepath.Dir(absolute), filepath.Base(absolute))
		}
	}
	return nil, fmt.Errorf("%s: not the source of a plugin; one ends in .go, .ts, .zig, .rs or .c", path)
}

// findIn looks for the sources of a plugin in dir, which the user calls named.
func findIn(dir, named string) (*Project, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []Language
	sources := make(map[Language][]string)
	for _, l := range Languages() {
		for _, e := range entries {
			if !e.IsDir() && l.isSource(e.Name()) {
				sources[l] = append(sources[l], e.Name())
			}
		}
		if sources[l] != nil {
			found = append(found, l)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%s: no plugin's sources: it has no .go, .ts, .zig, .rs or .c file; begin with wasmeter plugin new", named)
	case len(found) > 1:
		return nil, fmt.Errorf("%s: sources in several languages (%s and %s); name the file to build", named, sources[found[0]][0], sources[found[1]][0])
	}
	l := found[0]
	entry := entryOf(dir, l, sources[l])
	if entry == "" {
		return nil, fmt.Errorf("%s: several sources (%s), and none is named after the folder; name the file to build, such as %s",
			named, strings.Join(sources[l], ", "), filepath.Join(named, sources[l][0]))
	}
	return newProject(l, dir, entry)
}

// entryOf chooses the first file to compile: the only one, the one whose module
// lies beside it, or the one that is named as the folder is.
func entryOf(dir string, l Language, sources []string) string {
	if l == Go || len(sources) == 1 {
		return sources[0]
	}
	for _, source := range sources {
		stem := strings.TrimSuffix(source, l.extension())
		if _, err := os.Stat(filepath.Join(dir, stem+".wasm")); err == nil || stem == filepath.Base(dir) {
			return source
		}
	}
	return ""
}

func newProject(l Language, dir, entry string) (*Project, error) {
	p := &Project{Language: l, Dir: dir, Entry: entry, Name: strings.TrimSuffix(entry, l.extension())}
	if l == Go {
		p.Name = filepath.Base(dir)
		if module, err := goModule(filepath.Join(dir, "go.mod")); err == nil {
			p.Name = path.Base(module)
		} else if !os.IsNotExist(err) {
			return nil, err
		}
	}
	return p, nil
}

// goModule reads the path of a module from its go.mod.
func goModule(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "module" {
			return strings.Trim(words[1], `"`), nil
		}
	}
	return "", fmt.Errorf("%s: no line that begins with module", file)
}

// Module is the path of the plugin's module.
func (p *Project) Module() string { return filepath.Join(p.Dir, p.Name+".wasm") }

// Stale reports whether a source of the plugin is newer than its module, which
// then is another plugin than the sources say.
func (p *Project) Stale() bool {
	module, err := os.Stat(p.Module())
	if err != nil {
		return false
	}
	entries, err := os.ReadDir(p.Dir)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		info, err := e.Info()
		return err == nil && !e.IsDir() && p.Language.isSource(e.Name()) && info.ModTime().After(module.ModTime())
	})
}

// sdk gives the folder of the SDK: the plugin's own, or a copy below work.
func (p *Project) sdk(work string) (string, error) {
	own := filepath.Join(p.Dir, SDKFolder)
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return own, nil
	}
	copied := filepath.Join(work, "sdk")
	return copied, sdk.Copy(p.Language.sdkFolder(), copied)
}
