package host

import (
	"testing"

	"github.com/wasmeter/wasmeter/host/keys"
	"github.com/wasmeter/wasmeter/host/plugin"
)

// TestPrefixCacheScope: who finds what others asked before, by the usage that is
// told and by the frame that the ledger keeps.
func TestPrefixCacheScope(t *testing.T) {
	for _, scope := range []string{PrefixCacheTenant, PrefixCacheGlobal} {
		t.Run(scope, func(t *testing.T) {
			kept := &book{}
			f := serve(t, func(u *setup) {
				u.ledger = kept
				u.options.PrefixCacheScope = scope
				u.keys = new(keys.Ring)
				for _, o := range []keys.Owner{{Name: "alice", Tenant: "acme"}, {Name: "bob", Tenant: "acme"}, {Name: "eve", Tenant: "evil"}} {
					if err := u.keys.Add("sk-"+o.Name, o); err != nil {
						t.Fatal(err)
					}
				}
			})
			// The prompt has 22 tokens and one block of 16: see TestChat.
			global := 0.
			if scope == PrefixCacheGlobal {
				global = 16
			}
			for _, c := range []struct {
				name, key, more string
				want            float64
			}{
				{"the first of all", "sk-alice", "", 0},
				{"the same key", "sk-alice", "", 16},
				{"another key of the tenant", "sk-bob", "", 16},
				{"another tenant", "sk-eve", "", global},
				{"with a salt", "sk-alice", `"cache_salt":"pepper"`, 0},
				{"with the same salt", "sk-bob", `"cache_salt":"pepper"`, 16},
				{"with another salt", "sk-bob", `"cache_salt":"pepper2"`, 0},
				{"another tenant with the salt", "sk-eve", `"cache_salt":"pepper"`, global},
				{"several choices count their prompt once", "sk-alice", `"n":3,"cache_salt":"n"`, 0},
			} {
				r := f.do("POST", "/v1/chat/completions", chatBody(c.more), "Authorization", "Bearer "+c.key)
				if got := at(decode(t, r.body), "usage", "prompt_tokens_details", "cached_tokens"); got != c.want {
					t.Errorf("%s: %v tokens cached, want %v: %s", c.name, got, c.want, r.body)
				}
				all := kept.all()
				frame, err := plugin.ParseFrame(all[len(all)-1].Frame)
				if err != nil {
					t.Fatal(err)
				}
				if got, written := frame.CachedPromptTokens, frame.CacheWriteTokens; float64(got) != c.want || float64(written) != 16-c.want {
					t.Errorf("%s: the frame says %d cached and %d written, want %v and %v", c.name, got, written, c.want, 16-c.want)
				}
			}
		})
	}
}

// TestCacheRootTellsPartsApart: parts that together are the same bytes.
func TestCacheRootTellsPartsApart(t *testing.T) {
	s := &Server{parts: Parts{Models: []string{"m"}}}
	roots := map[[32]byte]string{}
	for _, c := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"a\x00b", ""}} {
		root := s.cacheRoot(c[0], c[1])
		if other, ok := roots[root]; ok {
			t.Errorf("tenant %q with salt %q has the root of %s", c[0], c[1], other)
		}
		roots[root] = c[0] + " with " + c[1]
	}
}
