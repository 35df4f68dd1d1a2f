package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The variables and defaults are those of huggingface_hub's page "Environment
// variables".
func TestFromEnv(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(" hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		environ, want string // NAME=value and the options, separated by spaces
	}{
		{"HOME=/h", "https://huggingface.co /h/.cache/huggingface/hub - online"},
		{"HOME=/h XDG_CACHE_HOME=/c", "https://huggingface.co /c/huggingface/hub - online"},
		{"HF_HOME=~/hf HOME=/h", "https://huggingface.co /h/hf/hub - online"},
		{"HF_HOME=" + dir, "https://huggingface.co " + dir + "/hub hf_file online"},
		{"HF_HOME=" + dir + " HF_HUB_DISABLE_IMPLICIT_TOKEN=1", "https://huggingface.co " + dir + "/hub - online"},
		{"HF_HOME=" + dir + " HF_TOKEN=hf_env", "https://huggingface.co " + dir + "/hub hf_env online"},
		{"HF_HOME=/x HF_TOKEN_PATH=" + file, "https://huggingface.co /x/hub hf_file online"},
		{"HF_HOME=/x HF_HUB_CACHE=$A/b A=/a", "https://huggingface.co /a/b - online"},
		{"HF_HOME=/x HUGGINGFACE_HUB_CACHE=/b", "https://huggingface.co /b - online"},
		{"HF_HOME=/x HF_ENDPOINT=http://h:1/hf/ HF_HUB_OFFLINE=1", "http://h:1/hf /x/hub - offline"},
		{"HF_HOME=/x TRANSFORMERS_OFFLINE=yes", "https://huggingface.co /x/hub - offline"},
		{"HF_HOME=/x HF_HUB_OFFLINE=0", "https://huggingface.co /x/hub - online"},
		{"", "!neither HOME nor HF_HOME"},
		{"HF_HOME=/x HF_ENDPOINT=ftp://h", "!HF_ENDPOINT"},
		{"HF_HOME=/x HF_ENDPOINT=huggingface.co", "!HF_ENDPOINT"},
		{"HF_HOME=/x HF_TOKEN=a\x01b", "!HF_TOKEN: the token holds"},
		{"HF_HOME=/x HF_TOKEN_PATH=" + dir, "!read the hub's token"},
	} {
		environ := make(map[string]string)
		for pair := range strings.FieldsSeq(test.environ) {
			name, value, _ := strings.Cut(pair, "=")
			environ[name] = value
		}
		o, err := FromEnv(func(name string) string { return environ[name] })
		mode := "online"
		if o.Offline {
			mode = "offline"
		}
		got := strings.Join([]string{o.Endpoint, filepath.ToSlash(o.Cache), first(o.Token, "-"), mode}, " ")
		if err != nil {
			got = "!" + err.Error()
		}
		if got != test.want && !(test.want[0] == '!' && strings.HasPrefix(got, test.want)) && !(test.want[0] == '!' && strings.Contains(got, test.want[1:])) {
			t.Errorf("%s: got %s, want %s", test.environ, got, test.want)
		}
	}
}
