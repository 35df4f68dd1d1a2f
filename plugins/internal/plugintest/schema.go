package plugintest

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/wasmeter/wasmeter/plugins/internal/settings"
)

// schema is what of a JSON Schema says which members there are.
type schema struct {
	Ref                  string             `json:"$ref"`
	Defs                 map[string]*schema `json:"$defs"`
	Properties           map[string]*schema
	Required             []string
	AdditionalProperties *bool
	Items                *schema
}

// CheckSchema compares the members that a plugin accepts with those of
// schema.json beside the test: their names, which of them are required, and that
// no others are allowed.
func CheckSchema(t *testing.T, m settings.Members) {
	t.Helper()
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("schema.json: %v", err)
	}
	got, want := s.paths(t, s.Defs, "config"), m.Paths()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("schema.json has the members\n%q,\nthe plugin\n%q", got, want)
	}
}

// paths lists members as settings.Members.Paths does.
func (s *schema) paths(t *testing.T, defs map[string]*schema, at string) (paths []string) {
	t.Helper()
	if s.Properties != nil && (s.AdditionalProperties == nil || *s.AdditionalProperties) {
		t.Errorf("schema.json: %s allows any member", at)
	}
	for name, member := range s.Properties {
		path := name
		if slices.Contains(s.Required, name) {
			path += "!"
		}
		paths = append(paths, path)
		for ; ; member = member.Items {
			for member.Ref != "" {
				const local = len("#/$defs/")
				if member = defs[member.Ref[local:]]; member == nil {
					t.Fatalf("schema.json: %s.%s refers to what is not there", at, name)
				}
			}
			if member.Items == nil {
				break
			}
			name += "[]"
		}
		for _, p := range member.paths(t, defs, at+"."+name) {
			paths = append(paths, name+"."+p)
		}
	}
	return paths
}
