package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags are the keys as command-line flags. A flag is checked while the
// command line is parsed: a word that is not allowed is a usage error.
type Flags struct {
	set *pflag.FlagSet
	// scratch takes the values; keys are bound to it.
	scratch Config
	byFlag  map[string]*key
	groups  []FlagGroup
}

// FlagGroup is the flags of one section, for --help.
type FlagGroup struct {
	Section string // server, model, …
	Title   string
	Set     *pflag.FlagSet
}

// flagTitles are the headings of the sections that have flags.
var flagTitles = []struct{ section, title string }{
	{"server", "Server"}, {"model", "Model"}, {"engine", "Engine"}, {"metrics", "Metrics"}, {"sim", "Simulated device"}, {"log", "Log"},
}

// NewFlags adds the flags to a command's set.
func NewFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set, scratch: Default(), byFlag: make(map[string]*key)}
	keys := f.scratch.keys()
	for _, t := range flagTitles {
		group := pflag.NewFlagSet(t.title, pflag.ContinueOnError)
		group.SortFlags = false
		for i := range keys {
			if section, _, _ := strings.Cut(keys[i].name, "."); section == t.section && keys[i].flag != "" {
				f.add(group, &keys[i])
			}
		}
		f.groups = append(f.groups, FlagGroup{t.section, t.title, group})
		set.AddFlagSet(group)
	}
	return f
}

// add adds the flag of a key and, for a yes or no, the one with --no- before
// it, as vLLM has them.
func (f *Flags) add(group *pflag.FlagSet, k *key) {
	var v, opposite value = k.value, nil
	if b, ok := k.value.(boolValue); ok {
		v, opposite = b, notValue{b}
		if k.negated {
			v, opposite = opposite, v
		}
	}
	f.byFlag[k.flag] = k
	group.VarPF(v, k.flag, "", k.usage).NoOptDefVal = k.bare
	if opposite != nil {
		no := group.VarPF(opposite, "no-"+k.flag, "", "the opposite")
		no.NoOptDefVal = k.bare
		no.Hidden = k.name != "engine.enable_prefix_caching"
		f.byFlag["no-"+k.flag] = k
	}
}

// Groups are the flags under their headings.
func (f *Flags) Groups() []FlagGroup { return f.groups }

// given is posflag's callback: the name and the text of a flag that was given,
// or no name.
func (f *Flags) given(flag *pflag.Flag) (string, any) {
	k := f.byFlag[flag.Name]
	if k == nil || !flag.Changed {
		return "", nil
	}
	return strings.ReplaceAll(k.name, ".", delimiter), k.value.String()
}

// origins names the flag that gave each key.
func (f *Flags) origins(into map[string]Origin) {
	f.set.Visit(func(flag *pflag.Flag) {
		if k := f.byFlag[flag.Name]; k != nil {
			into[k.name] = Origin{Layer: LayerFlag, Place: "--" + flag.Name}
		}
	})
}
