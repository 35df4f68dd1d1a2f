package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wasmeter/wasmeter/plugins/internal/plugintest"
)

func TestSchema(t *testing.T) { plugintest.CheckSchema(t, newConfig().members()) }

// jsonSchema is what schema.json uses of JSON Schema 2020-12.
type jsonSchema struct {
	Ref                  string                 `json:"$ref"`
	Defs                 map[string]*jsonSchema `json:"$defs"`
	Type                 string
	Properties           map[string]*jsonSchema
	AdditionalProperties *bool
	Required             []string
	Items                *jsonSchema
	MaxItems             *int
	Enum                 []string
	Pattern              string
	MinLength, MaxLength *int
	Minimum, Maximum     *int64
}

// check gives what a value breaks, nil if nothing.
func (s *jsonSchema) check(root *jsonSchema, at string, value any) error {
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, at, value)
	}
	isType := map[string]bool{"": true}
	switch v := value.(type) {
	case map[string]any:
		isType["object"] = true
		for _, name := range s.Required {
			if _, found := v[name]; !found {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
		}
		for name, member := range v {
			p := s.Properties[name]
			if p == nil && s.AdditionalProperties != nil {
				return fmt.Errorf("%s.%s is unknown", at, name)
			}
			if p != nil {
				if err := p.check(root, at+"."+name, member); err != nil {
					return err
				}
			}
		}
	case []any:
		isType["array"] = true
		if s.MaxItems != nil && len(v) > *s.MaxItems {
			return fmt.Errorf("%s has %d items", at, len(v))
		}
		for i, item := range v {
			if s.Items != nil {
				if err := s.Items.check(root, fmt.Sprintf("%s[%d]", at, i), item); err != nil {
					return err
				}
			}
		}
	case string:
		isType["string"] = true
		n := utf8.RuneCountInString(v)
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) || s.MinLength != nil && n < *s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
			return fmt.Errorf("%s is %q", at, v)
		}
	case bool:
		isType["boolean"] = true
	case json.Number:
		n, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return fmt.Errorf("%s is %s", at, v)
		}
		isType["integer"] = n.IsInt()
		if s.Minimum != nil && n.Cmp(big.NewRat(*s.Minimum, 1)) < 0 || s.Maximum != nil && n.Cmp(big.NewRat(*s.Maximum, 1)) > 0 {
			return fmt.Errorf("%s is %s", at, v)
		}
	}
	if !isType[s.Type] {
		return fmt.Errorf("%s is no %s", at, s.Type)
	}
	if s.Enum != nil {
		for _, word := range s.Enum {
			if word == value {
				return nil
			}
		}
		return fmt.Errorf("%s is none of %v", at, s.Enum)
	}
	return nil
}

// TestSchemaAgrees: the schema accepts what the plugin does, and refuses what it
// refuses, but for what members say together and how numbers are written.
func TestSchemaAgrees(t *testing.T) {
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonSchema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	beyond := regexp.MustCompile(`stands there twice|have the same prices|is not more than|is rounded to|no prices|are the same time|duplicate|2500000\.0|25e5|"\*" is not|"a\*b" is not|field: "a b"`)
	all := configs()
	for seed := range uint64(50) {
		all[randomBook(newRand(seed))] = ""
	}
	for config, want := range all {
		decoder := json.NewDecoder(strings.NewReader(config))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%v in %s", err, config)
		}
		err := schema.check(&schema, "config", value)
		if wrong := want != "" && !beyond.MatchString(want); (err != nil) != wrong {
			t.Errorf("%s:\nthe plugin says %q, the schema %v", config, want, err)
		}
	}
}
