package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// reload prints a configuration and loads what was printed.
func reload(t *testing.T, c *Config) *Config {
	t.Helper()
	var text bytes.Buffer
	if err := c.Print(&text, false); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Sources{File: write(t, text.String())})
	if err != nil {
		t.Fatalf("%v in what was printed:\n%s", err, &text)
	}
	return again
}

// TestPrintLoads: what is printed is a file that says the same, but for what
// is not shown.
func TestPrintLoads(t *testing.T) {
	c, err := Load(Sources{File: "testdata/good/all.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	again := reload(t, c)
	c.origins, again.origins, c.Plugins[1].Spec.Config = nil, nil, nil
	again.file = c.file
	if !reflect.DeepEqual(c, again) {
		t.Errorf("printed and loaded: got %+v\nwant %+v", again, c)
	}
}

func TestPrintOrigins(t *testing.T) {
	file := write(t, "server:\n  host: localhost\nplugins:\n  - {name: a, path: a.wasm, config: {token: hidden}}\n")
	c, err := Load(Sources{File: file, Environ: []string{"WASMETER_ENGINE__THREADS=3"}, Flags: parse(t, "--port=9000"), Model: "m.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.Print(&text, true); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"host: localhost # " + file + ":2",
		"port: 9000 # --port",
		"threads: 3 # WASMETER_ENGINE__THREADS",
		"max_num_seqs: 64 # default",
		"path: m.gguf # argument MODEL",
		"- name: a # " + file + ":4",
		"path: a.wasm # " + file + ":4",
		"# config: not shown # " + file + ":4",
	} {
		if !strings.Contains(strings.Join(got, "\n")+"\n", want+"\n") {
			t.Errorf("no line %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "hidden") {
		t.Errorf("a plugin's config is shown:\n%s", &text)
	}
}

// FuzzLoad: no file makes loading crash, and what is accepted can be printed
// and loaded again to the same effect.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "server: {port: 1}", "a: &a [*a]", "- ", "\x00", "? x\n: y", "model: {path: \"a\\u2028 #: '\"}",
		"plugins: [{name: a, path: \"-\", grants: {fields: [\"x y\", off]}, on_error: null}]",
		"engine: &e {threads: 1}\nserver: *e", "%YAML 1.2\n---\nserver: {}\n...\n", "server: {host: \"\\x85\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(Sources{File: write(t, string(data))})
		if err != nil {
			return
		}
		again := reload(t, c)
		c.origins, again.origins = nil, nil
		again.file = c.file
		for i := range c.Plugins {
			c.Plugins[i].Spec.Config = nil
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("%q: printed and loaded: got %+v\nwant %+v", data, again, c)
		}
	})
}
