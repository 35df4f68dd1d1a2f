package toolchain

import (
	"context"
	"os"
	"path/filepath"
)

// ascVersion is the release that the SDK is written in and tested with.
const ascVersion = "0.28.20"

// ascCommands are the compilers in node_modules of the plugin's folder and of
// those above it, as Node looks for them, and others.
func (p *Project) ascCommands() [][]string {
	var places []string
	for dir, last := p.Dir, ""; dir != last; dir, last = filepath.Dir(dir), dir {
		places = append(places, filepath.Join(dir, "node_modules", ".bin", "asc"))
	}
	return candidates("ASC", append(places, cached("assemblyscript-"+ascVersion, "node_modules", ".bin", "asc"), "asc")...)
}

func (p *Project) buildAssemblyScript(ctx context.Context, work, out string) (string, error) {
	command, _, found := look(ctx, p.ascCommands(), "--version", func(v string) bool { return v == "Version "+ascVersion })
	if command == nil {
		return "", &Missing{Wanted: "AssemblyScript " + ascVersion, Found: found, Install: "npm install assemblyscript@" + ascVersion, Setting: "ASC"}
	}
	sdk, err := p.sdk(work)
	if err != nil {
		return "", err
	}
	// Paths stand in the module, in the messages of assertions. So there is a
	// folder of packages with the SDK in it, and the plugin's own folder beside.
	packages, plugin := filepath.Join(work, "packages"), filepath.Join(work, "plugin")
	if err := os.Mkdir(packages, 0o700); err != nil {
		return "", err
	}
	if err := os.Symlink(sdk, filepath.Join(packages, SDKFolder)); err != nil {
		return "", err
	}
	if err := os.Symlink(p.Dir, plugin); err != nil {
		return "", err
	}
	// The host refuses a start function and calls _initialize instead. A failed
	// assertion is logged by the SDK's own abort.
	return "assemblyscript " + ascVersion, run(ctx, work, nil, append(command,
		"plugin/"+p.Entry, "--baseDir", work, "--path", packages, "--outFile", out,
		"-O", "--exportStart", "_initialize", "--use", "abort=~lib/wasmeter/stderr/abort")...)
}
