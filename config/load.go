package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
)

// delimiter joins the parts of a key in koanf. It is a byte that no key can
// hold: a dot would split a plugin's or a model's name, such as gpt-4.1.
const delimiter = "\x1f"

// envPrefix begins the variables that are configuration, if they hold "__"
// too: WASMETER_SERVER__PORT. Kubernetes sets WASMETER_PORT and the like for a
// service of that name.
const envPrefix = "WASMETER_"

// Sources are the layers above the defaults.
type Sources struct {
	// File is the YAML file, "" for none.
	File string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are the parsed flags, nil for none.
	Flags *Flags
	// Model is the MODEL argument, "" for none.
	Model string
}

// Load reads and checks a configuration. The error joins a Fault for each
// thing that is wrong.
func Load(sources Sources) (*Config, error) {
	faults := &faultList{}
	origins := make(map[string]Origin)
	k := koanf.New(delimiter)

	doc := &document{file: sources.File, origins: origins, faults: faults}
	if sources.File != "" {
		if err := loadFile(k, doc); err != nil {
			return nil, err
		}
	}
	scratch := Default()
	environ := &environment{keys: scratch.keys(), origins: origins, faults: faults}
	if err := k.Load(env.Provider(delimiter, env.Opt{
		Prefix:        envPrefix,
		EnvironFunc:   func() []string { return sources.Environ },
		TransformFunc: environ.read,
	}), nil); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	if sources.Flags != nil {
		if err := k.Load(posflag.ProviderWithFlag(sources.Flags.set, delimiter, k, sources.Flags.given), nil); err != nil {
			return nil, fmt.Errorf("read flags: %w", err)
		}
		sources.Flags.origins(origins)
	}
	if sources.Model != "" {
		if err := k.Set("model"+delimiter+"path", sources.Model); err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		origins["model.path"] = Origin{Layer: LayerFlag, Place: "argument MODEL"}
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return build(k, doc, origins)
}

// loadFile checks what kind of file it is before it is read whole.
func loadFile(k *koanf.Koanf, doc *document) error {
	info, err := os.Stat(doc.file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read configuration: %s is not a file", doc.file)
	}
	if info.Size() > maxFileBytes {
		return fmt.Errorf("read configuration: %s has %d bytes; a configuration has at most %d", doc.file, info.Size(), maxFileBytes)
	}
	if err := k.Load(file.Provider(doc.file), doc); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return nil
}

// build fills a Config from the merged layers and validates it.
func build(k *koanf.Koanf, doc *document, origins map[string]Origin) (*Config, error) {
	c := Default()
	c.file, c.Plugins, c.origins = doc.file, doc.plugins, origins
	faults := &faultList{}
	for _, key := range c.keys() {
		name := strings.ReplaceAll(key.name, ".", delimiter)
		if !k.Exists(name) {
			continue
		}
		if err := key.value.Set(k.String(name)); err != nil {
			faults.add(c.Origin(key.name), key.name, "%v", err)
		}
	}
	for _, err := range flatten("", c.Validate()) {
		name, reason, _ := strings.Cut(err.Error(), ": ")
		faults.add(c.Origin(name), name, "%s", reason)
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return &c, nil
}

// environment reads variables.
type environment struct {
	keys    schema
	origins map[string]Origin
	faults  *faultList
}

// read is env's callback: the key and the text of a variable, or no key.
func (e *environment) read(variable, text string) (string, any) {
	path := strings.TrimPrefix(variable, envPrefix)
	if !strings.Contains(path, "__") {
		return "", nil
	}
	origin := Origin{Layer: LayerEnvironment, Place: clip(variable)}
	name := strings.ToLower(strings.ReplaceAll(path, "__", "."))
	k := e.keys.find(name)
	switch {
	case k != nil && path == strings.ToUpper(path):
	case strings.HasPrefix(name, "plugins."):
		e.faults.add(origin, "plugins", "plugins stand in the file only (--config)")
		return "", nil
	default:
		if k == nil {
			k = e.keys.find(e.keys.nearest(name))
		}
		if k == nil {
			e.faults.add(origin, clip(name), "%s", e.keys.unknown(name))
		} else {
			e.faults.add(origin, clip(name), "unknown key; did you mean %s?", variableOf(k.name))
		}
		return "", nil
	}
	if err := k.value.Set(text); err != nil {
		if k.secret {
			err = errSecret
		}
		e.faults.add(origin, k.name, "%v", err)
		return "", nil
	}
	e.origins[k.name] = origin
	return strings.ReplaceAll(k.name, ".", delimiter), k.value.String()
}

// variableOf is the variable that sets a key.
func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "__"))
}
