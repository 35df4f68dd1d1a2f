package config

import "testing"

// Distances counted by hand.
func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"port", "port", 0}, {"", "port", 4}, {"prot", "port", 1}, {"ports", "port", 1},
		{"pxrt", "port", 1}, {"ort", "port", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abc", "cab", 2},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q): got %d, want %d", test.a, test.b, got, test.want)
		}
		if got := distance(test.b, test.a); got != test.want {
			t.Errorf("distance(%q, %q): got %d, want %d", test.b, test.a, got, test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	c := Default()
	keys := schema(c.keys())
	for name, want := range map[string]string{
		"server.prot":           "server.port",
		"server.Port":           "server.port",
		"max_num_seqs":          "engine.max_num_seqs",
		"engine.max-num-seqs":   "engine.max_num_seqs",
		"engine.per_request":    "metrics.per_request",
		"engin":                 "engine",
		"engine.kv_cache_memry": "engine.kv_cache_memory",
		"server.x":              "",
		"quota":                 "",
	} {
		if got := keys.nearest(name); got != want {
			t.Errorf("nearest(%q): got %q, want %q", name, got, want)
		}
	}
}

// TestKeys: names and flags are unique, every default is accepted by its own
// key, and every word that works is one that is allowed.
func TestKeys(t *testing.T) {
	c, p := Default(), newPlugin()
	for _, keys := range []schema{c.keys(), p.keys()} {
		names, flags := make(map[string]bool), make(map[string]bool)
		for _, k := range keys {
			if names[k.name] || k.flag != "" && flags[k.flag] {
				t.Errorf("%s (--%s) stands there twice", k.name, k.flag)
			}
			names[k.name], flags[k.flag] = true, true
			text := k.value.String()
			if _, isChoice := k.value.(choiceValue); isChoice && text == "" {
				continue // not chosen
			}
			if err := k.value.Set(text); err != nil || k.value.String() != text {
				t.Errorf("%s: its default %q reads as %q, %v", k.name, text, k.value.String(), err)
			}
			if err := k.available(); err != nil {
				t.Errorf("%s: its default is refused: %v", k.name, err)
			}
		}
	}
}
