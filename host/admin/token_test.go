package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadToken(t *testing.T) {
	for _, c := range []struct {
		name, content string
		good          bool
	}{
		{"a line", strings.Repeat("a", 16) + "\n", true},
		{"no end of line", strings.Repeat("a", 16), true},
		{"of a Windows editor", strings.Repeat("a", 16) + "\r\n", true},
		{"the longest", strings.Repeat("a", 1024) + "\n", true},
		{"empty", "", false},
		{"short", strings.Repeat("a", 15) + "\n", false},
		{"long", strings.Repeat("a", 1025), false},
		{"longer than is read", strings.Repeat("a", 5000), false},
		{"two lines", strings.Repeat("a", 16) + "\n" + strings.Repeat("b", 16), false},
		{"a space", strings.Repeat("a", 16) + " ", false},
		{"not ASCII", strings.Repeat("ü", 16), false},
		{"binary", strings.Repeat("\x00", 32), false},
	} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := ReadToken(file)
		if (err == nil) != c.good {
			t.Errorf("%s: got %v", c.name, err)
		}
		if err != nil && (!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "aaaa")) {
			t.Errorf("%s: %v; want the file, and nothing of what is in it", c.name, err)
		}
		if c.good && !token.matches(strings.TrimSpace(c.content)) {
			t.Errorf("%s: another token was read", c.name)
		}
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a token was read from no file")
	}
}

func TestMakeToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "b", "token")
	token, err := MakeToken(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ReadTokenText(file)
	if err != nil || !token.matches(text) {
		t.Errorf("what was written is not the token: %v", err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	dir, err := os.Stat(filepath.Dir(file))
	if err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("folder's mode %v, %v; want 0700", dir.Mode(), err)
	}
	// A link that is there already is not followed.
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, file); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	again, err := MakeToken(file)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(other); err != nil || len(data) != 0 {
		t.Errorf("the token was written through a link: %q, %v", data, err)
	}
	if again.matches(text) {
		t.Error("two tokens are the same")
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v; want the token alone", left, err)
	}
}

func TestTokenFiles(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	for _, c := range []struct{ runtime, state, want string }{
		{"/run/user/1", "", "/run/user/1/wasmeter/admin-8001.token /home/u/.local/state/wasmeter/admin-8001.token"},
		{"", "/s", "/s/wasmeter/admin-8001.token"},
		{"relative", "relative", "/home/u/.local/state/wasmeter/admin-8001.token"},
	} {
		t.Setenv("XDG_RUNTIME_DIR", c.runtime)
		t.Setenv("XDG_STATE_HOME", c.state)
		if got := strings.Join(TokenFiles("8001"), " "); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	t.Setenv("HOME", "")
	if got := TokenFiles("8001"); len(got) != 0 {
		t.Errorf("a user without folders: got %v", got)
	}
}
