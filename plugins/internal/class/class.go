// Package class finds the class of a request: of several that a configuration
// describes the first that covers it.
package class

import (
	"errors"
	"strings"

	"github.com/wasmeter/wasmeter/plugins/internal/settings"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// Limits of a configuration's classes.
const (
	Most        = 32  // classes
	mostPattern = 256 // names in one list
	mostName    = 32  // bytes of a class's name
)

// Default is the class of requests that no other covers.
const Default = "default"

// Class says which requests it is for: each list that is not empty has to name
// the request's own. A name that ends in * stands for all that begin so.
type Class struct {
	Name         string
	tenants      []string
	models       []string
	keyNames     []string
	serviceTiers []string
}

// Members are those of a class in a configuration.
func (c *Class) Members() settings.Members {
	patterns := func(name string, to *[]string) settings.Member {
		return settings.Member{Name: name, Value: settings.List(to, mostPattern, func(to *string) settings.Value {
			return settings.Text(to, "a name, or a beginning and *", isPattern)
		})}
	}
	return settings.Members{
		{Name: "name", Value: settings.Text(&c.Name, "1 to 32 of a-z, 0-9, _ and -, other than default", isName), Required: true},
		patterns("tenants", &c.tenants),
		patterns("models", &c.models),
		patterns("key_names", &c.keyNames),
		patterns("service_tiers", &c.serviceTiers),
	}
}

// Check refuses a class that would cover everything: those behind it would
// never be found.
func (c *Class) Check() error {
	if len(c.tenants)+len(c.models)+len(c.keyNames)+len(c.serviceTiers) == 0 {
		return errors.New("names nobody; write tenants, models, key_names or service_tiers, or use " + Default + " for all others")
	}
	return nil
}

// Covers reports whether the class is for a request.
func (c *Class) Covers(r wasmeter.Request) bool {
	return among(c.tenants, r.Tenant()) && among(c.models, r.Model()) &&
		among(c.keyNames, r.KeyName()) && among(c.serviceTiers, r.ServiceTier())
}

// Distinct refuses two classes of the same name; name gives that of each.
func Distinct(n int, name func(i int) string) error {
	for i := range n {
		for j := range i {
			if name(i) == name(j) {
				return errors.New("two classes are named " + name(i))
			}
		}
	}
	return nil
}

func among(patterns []string, name string) bool {
	for _, p := range patterns {
		if prefix, wild := strings.CutSuffix(p, "*"); p == name || wild && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return len(patterns) == 0
}

func isPattern(text string) bool {
	at := strings.IndexByte(text, '*')
	return text != "" && (at < 0 || at == len(text)-1)
}

func isName(text string) bool {
	return text != "" && len(text) <= mostName && text != Default && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
