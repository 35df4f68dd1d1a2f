package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/sdk/toolchain"
)

// folderConfig is a plugin's folder's configuration of a server with it.
const folderConfig = "wasmeter.yaml"

// folderSpec describes the plugin of a folder, whose module is to be found at a
// path, as the folder's wasmeter.yaml has it, and without one as a plugin that is
// granted nothing.
func folderSpec(dir, module string) (plugin.Spec, error) {
	usual := filepath.Base(module)
	if project, err := toolchain.Find(dir); err == nil {
		usual = filepath.Base(project.Module())
	}
	spec := plugin.Spec{Name: strings.ToLower(strings.TrimSuffix(usual, ".wasm")), Path: module}
	file := filepath.Join(dir, folderConfig)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return spec, nil
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		return spec, err
	}
	for i := range c.Plugins {
		if filepath.Base(c.Plugins[i].Path) == usual {
			spec = c.Plugins[i].Spec
			spec.Path, spec.SHA256 = module, ""
			return spec, nil
		}
	}
	return spec, fmt.Errorf("%s: no plugin has the path %s, which is what the folder's sources are built into", file, usual)
}

// folderModule finds the module of a plugin's folder. stale is the source that it
// is older than, if any.
func folderModule(dir string) (module string, stale bool, err error) {
	project, err := toolchain.Find(dir)
	if err == nil {
		module = project.Module()
		if _, err := os.Stat(module); err != nil {
			return "", false, fmt.Errorf("%s is not there; build it: wasmeter plugin build %s", relative(module), dir)
		}
		return module, project.Stale(), nil
	}
	modules, globErr := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if globErr != nil || len(modules) != 1 {
		return "", false, fmt.Errorf("%w; or name the module with --wasm", err)
	}
	return modules[0], false, nil
}
