package keys

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func hash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func TestLoadAndFind(t *testing.T) {
	path := write(t, "keys:\n- {name: alice, tenant: acme, sha256: "+hash("one")+"}\n- {name: bob, env: BOB_KEY}\n")
	r, err := Load(path, func(name string) string { return map[string]string{"BOB_KEY": "two"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Owner{"one": {"alice", "acme"}, "two": {"bob", "bob"}} {
		if got, ok := r.Find(key); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", key, got, ok, want)
		}
	}
	for _, key := range []string{"", "three", "on", "one ", hash("one")} {
		if got, ok := r.Find(key); ok {
			t.Errorf("%q is %v, want nobody", key, got)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no keys":      {"keys: []", "wasmeter keys add"},
		"empty file":   {"", "wasmeter keys add"},
		"unknown":      {"keys:\n- {name: a, hash: b}", "field hash not found"},
		"short hash":   {"keys:\n- {name: a, sha256: abc}", "64 hex digits"},
		"nothing":      {"keys:\n- {name: a}", "exactly one of sha256 and env"},
		"both":         {"keys:\n- {name: a, env: B, sha256: abc}", "exactly one of sha256 and env"},
		"no variable":  {"keys:\n- {name: a, env: NONE}", "NONE is not set"},
		"no name":      {"keys:\n- {env: SET}", "1 to 64 visible"},
		"odd name":     {"keys:\n- {name: \"a\\nb\", env: SET}", "1 to 64 visible"},
		"odd tenant":   {"keys:\n- {name: a, tenant: \"a b\", env: SET}", "tenant"},
		"same name":    {"keys:\n- {name: a, sha256: " + hash("1") + "}\n- {name: a, sha256: " + hash("2") + "}", "two keys are named"},
		"same key":     {"keys:\n- {name: a, sha256: " + hash("1") + "}\n- {name: b, sha256: " + hash("1") + "}", "are the same key"},
		"not a list":   {"keys: 3", "cannot unmarshal"},
		"not YAML":     {"keys: [", "yaml"},
		"every fault":  {"keys:\n- {name: a}\n- {name: b}", "key 2"},
		"clear secret": {"keys:\n- {name: a, key: secret}", "field key not found"},
	} {
		_, err := Load(write(t, c.text), func(name string) string { return map[string]string{"SET": "x"}[name] })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none"), os.Getenv); err == nil {
		t.Error("a missing file: no error")
	}
}

func TestMake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	first, err := Make(path, Owner{Name: "alice", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("# ours\n"), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := Make(path, Owner{Name: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	if first == second || len(first) < 30 {
		t.Errorf("keys %q and %q", first, second)
	}
	data, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, "# ours") || strings.Contains(text, first) || strings.Contains(text, second) {
		t.Errorf("the file lost its comment or holds a key in clear:\n%s", text)
	}
	r, err := Load(path, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := r.Find(first); !ok || o != (Owner{"alice", "acme"}) {
		t.Errorf("first: %v %v", o, ok)
	}
	if o, ok := r.Find(second); !ok || o != (Owner{"bob", "bob"}) {
		t.Errorf("second: %v %v", o, ok)
	}
	if _, err := Make(path, Owner{Name: "bob"}); err == nil || !strings.Contains(err.Error(), "two keys are named") {
		t.Errorf("the same name again: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("keys:\n- {name: a, tenant: b, sha256: 00}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		f, err := parse("x", data)
		if err != nil {
			return
		}
		for _, e := range f.Keys {
			_ = (&Ring{}).addEntry(e, func(string) string { return "x" }) // any error, no panic
		}
	})
}
