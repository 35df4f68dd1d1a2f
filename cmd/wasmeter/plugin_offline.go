package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins"
)

// offline is how a command runs a plugin without a server.
type offline struct {
	setting string // of --plugin-config
	entry   string // of --plugin
	fuel    int64
	model   string // that spec found in the YAML file, by its first name; empty: none
}

const settingUsage = "a JSON `object`, or the server's YAML file, whose entry for the plugin says configuration, grants, fuel and match"

func (o *offline) flags(set *pflag.FlagSet) {
	set.StringVar(&o.setting, "plugin-config", "", "configuration: "+settingUsage)
	set.StringVar(&o.entry, "plugin", "", "`name` of the plugin's entry in a YAML file, where several could be meant")
	set.Int64Var(&o.fuel, "fuel", 0, "`units` of fuel a call, 0 for those of the entry, else those of a built-in plugin, else 5000000")
}

// spec describes a plugin: a file, or one that is part of the program, with a
// setting as the flag takes it. Without an entry it may do all that it asks for.
func (o *offline) spec(file, setting string) (plugin.Spec, error) {
	spec := plugin.Spec{Name: "plugin", Grants: plugin.Everything()}
	switch setting = strings.TrimSpace(setting); {
	case setting == "":
	case setting[0] == '{':
		spec.Config = []byte(setting)
	default:
		c, err := config.Load(config.Sources{File: setting})
		if err != nil {
			return spec, err
		}
		entry, err := findEntry(c.Plugins, o.entry, file)
		if err != nil {
			return spec, fmt.Errorf("%s: %w", setting, err)
		}
		spec = entry.Spec
		if names := c.Model.ServedNames; len(names) > 0 {
			o.model = names[0]
		}
	}
	if spec.Path = file; strings.HasPrefix(file, builtinPrefix) {
		builtin, found := plugins.Find(strings.TrimPrefix(file, builtinPrefix))
		if !found {
			return spec, fmt.Errorf("%s: no such plugin in this program; it has %s", file, strings.Join(plugins.Names(), ", "))
		}
		spec.Path, spec.Wasm, spec.UsualGrants = "", builtin.Module, builtin.Grants
		if spec.Fuel == 0 {
			spec.Fuel = builtin.Fuel
		}
	}
	if o.fuel != 0 {
		spec.Fuel = o.fuel
	}
	return spec, nil
}

// builtinPrefix stands before the name of a plugin that is part of the program,
// where a file is expected.
const builtinPrefix = "builtin:"

// findEntry finds the entry of a file: the one of that name, else the one whose
// module has the file's name, else the only one.
func findEntry(list []config.Plugin, name, file string) (*config.Plugin, error) {
	var names, found []int
	var all []string
	for i := range list {
		all = append(all, list[i].Name)
		if list[i].Name == name {
			names = append(names, i)
		}
		if module := list[i].Path; filepath.Base(module) == filepath.Base(file) || builtinPrefix+list[i].Builtin == file {
			found = append(found, i)
		}
	}
	switch {
	case len(names) == 1:
		return &list[names[0]], nil
	case name != "":
		return nil, fmt.Errorf("no plugin is named %q; there are: %s", name, strings.Join(all, ", "))
	case len(found) == 1:
		return &list[found[0]], nil
	case len(list) == 1:
		return &list[0], nil
	case len(list) == 0:
		return nil, errors.New("the file has no plugins")
	}
	return nil, fmt.Errorf("%s could be any of %s; say which with --plugin", file, strings.Join(all, ", "))
}

// offlineHost is what modules are compiled and checked with, as in the server,
// without a log.
func offlineHost() plugin.Options { return pluginOptions(slog.New(slog.DiscardHandler)) }
