package class

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/plugins/internal/settings"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func request(tenant, model, key, tier string) wasmeter.Request {
	frame := plugin.Frame{Tenant: tenant, Model: model, KeyName: key, ServiceTier: tier}
	return wasmeter.NewRequest(frame.Append(nil, plugin.HookRequest))
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		config  string
		request wasmeter.Request
		want    bool
	}{
		{`"tenants":["acme"]`, request("acme", "m", "k", ""), true},
		{`"tenants":["acme"]`, request("acme2", "m", "k", ""), false},
		{`"tenants":["acme"]`, request("", "m", "k", ""), false},
		{`"tenants":["a","acme*"]`, request("acme2", "m", "k", ""), true},
		{`"tenants":["*"]`, request("", "", "", ""), true},
		{`"tenants":["acme*"],"models":["big"]`, request("acme", "small", "", ""), false},
		{`"tenants":["acme*"],"models":["big"]`, request("acme", "big", "", ""), true},
		{`"tenants":[],"models":["big"]`, request("other", "big", "", ""), true},
		{`"key_names":["batch-*"]`, request("", "", "batch-7", ""), true},
		{`"key_names":["batch-*"]`, request("", "", "batch", ""), false},
		{`"service_tiers":["priority","flex"]`, request("", "", "", "flex"), true},
		{`"service_tiers":["priority","flex"]`, request("", "", "", ""), false},
	} {
		var class Class
		if err := settings.Read([]byte(`{"name":"x",`+c.config+`}`), class.Members(), class.Check); err != nil {
			t.Fatal(err)
		}
		if got := class.Covers(c.request); got != c.want {
			t.Errorf("%s of tenant %q, model %q, key %q, tier %q: got %v, want %v",
				c.config, c.request.Tenant(), c.request.Model(), c.request.KeyName(), c.request.ServiceTier(), got, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"name":"gold","tenants":["a"]}`:                            "",
		`{"tenants":["a"]}`:                                          "name: missing",
		`{"name":"gold"}`:                                            "names nobody",
		`{"name":"gold","tenants":[]}`:                               "names nobody",
		`{"name":"default","tenants":["a"]}`:                         "other than default",
		`{"name":"Gold","tenants":["a"]}`:                            `name: "Gold" is not 1 to 32`,
		`{"name":"","tenants":["a"]}`:                                `name: "" is not 1 to 32`,
		`{"name":"gold","tenants":["a*b"]}`:                          `tenants[0]: "a*b" is not a name`,
		`{"name":"gold","tenants":["**"]}`:                           `tenants[0]: "**" is not a name`,
		`{"name":"gold","tenants":[""]}`:                             `tenants[0]: "" is not a name`,
		`{"name":"gold","tenants":"a"}`:                              `tenants: "a" is not a list`,
		`{"name":"gold","service_tier":["a"]}`:                       "service_tier: unknown member",
		`{"name":"` + strings.Repeat("a", 33) + `","tenants":["a"]}`: "is not 1 to 32",
	} {
		var class Class
		err := settings.Read([]byte(config), class.Members(), class.Check)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}

func TestDistinct(t *testing.T) {
	names := []string{"a", "b", "a"}
	name := func(i int) string { return names[i] }
	if err := Distinct(2, name); err != nil {
		t.Errorf("a, b: %v", err)
	}
	if err := Distinct(3, name); err == nil || !strings.Contains(err.Error(), "named a") {
		t.Errorf("a, b, a: %v", err)
	}
}
