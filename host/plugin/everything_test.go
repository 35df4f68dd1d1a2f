package plugin

import (
	"slices"
	"testing"
)

func TestEverything(t *testing.T) {
	g := Everything()
	reserved := newReservedNames(&Options{Reserved: []string{"usage"}, ReservedHeaders: []string{"x-request-id"}})
	if faults := g.validate(reserved); len(faults) > 0 {
		t.Errorf("refused: %v", faults)
	}
	for _, rule := range importRules {
		if !g.permits(rule.grant) {
			t.Errorf("import %s needs %q, which is not granted", rule.name, rule.grant)
		}
	}
	if g.confined() {
		t.Error("what reads bodies may not emit")
	}
	for list, names := range map[string][]string{
		"fields": {"metrics", "Billing", "x_cost", "_a", "9"}, "headers": {"x-cost", "x-9"},
	} {
		granted := map[string][]string{"fields": g.Fields, "headers": g.Headers}[list]
		for _, name := range names {
			if !slices.ContainsFunc(granted, func(p string) bool { return covers(p, []byte(name)) }) {
				t.Errorf("%s: %q is not granted", list, name)
			}
		}
	}
}
