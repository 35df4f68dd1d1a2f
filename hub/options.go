package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Options say which hub is asked, by whom, and where the cache is.
type Options struct {
	// Endpoint is the hub's address, http or https, without a slash at its end.
	Endpoint string
	// Token is shown to the endpoint and to no other host. Empty: none is.
	Token string
	// Cache is the folder of huggingface_hub's cache.
	Cache string
	// Offline asks no server: what the cache has is all there is.
	Offline bool
	// UserAgent names this program to the server.
	UserAgent string
	// Inspect looks at a folder of safetensors once all but its weights are there,
	// which are not fetched if it returns an error. Nil: no one looks.
	Inspect func(folder string) error
	// Report is told how a pull goes, by the goroutine that called Pull. Nil: no
	// one is.
	Report func(Progress)
}

// Progress is how far a file is, or something that happened.
type Progress struct {
	// File is a name in the repository, empty for what concerns the whole pull.
	File string
	// Done of Size bytes are on disk.
	Done, Size int64
	// Note is a sentence for people, such as that a download is tried again.
	// Empty where only bytes came.
	Note string
}

// FromEnv reads the variables that huggingface_hub reads, with its defaults:
// HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_HOME,
// HF_HUB_CACHE, HF_HUB_OFFLINE, and the older names of three of them.
func FromEnv(getenv func(string) string) (Options, error) {
	o := Options{Endpoint: strings.TrimRight(first(getenv("HF_ENDPOINT"), "https://huggingface.co"), "/")}
	home, err := homeFolder(getenv)
	if err != nil {
		return o, err
	}
	o.Cache = expand(first(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE"), filepath.Join(home, "hub")), getenv)
	o.Offline = isTrue(first(getenv("HF_HUB_OFFLINE"), getenv("TRANSFORMERS_OFFLINE")))
	o.Token, err = readToken(getenv, home)
	if err != nil {
		return o, err
	}
	return o, o.Validate()
}

// Validate refuses an endpoint that cannot be asked.
func (o Options) Validate() error {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("HF_ENDPOINT: %q is not an address of a hub; write https://host", o.Endpoint)
	}
	if o.Cache == "" {
		return errors.New("HF_HUB_CACHE: no folder for the cache is named")
	}
	return nil
}

// homeFolder is where huggingface_hub keeps its files.
func homeFolder(getenv func(string) string) (string, error) {
	if home := getenv("HF_HOME"); home != "" {
		return expand(home, getenv), nil
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(expand(cache, getenv), "huggingface"), nil
	}
	home := userHome(getenv)
	if home == "" {
		return "", errors.New("no folder for models: neither HOME nor HF_HOME is set")
	}
	return filepath.Join(home, ".cache", "huggingface"), nil
}

// readToken takes the token of the environment, else that of the file which
// hf auth login writes. White space around it does not count.
func readToken(getenv func(string) string, home string) (string, error) {
	token, from := first(getenv("HF_TOKEN"), getenv("HUGGING_FACE_HUB_TOKEN")), "HF_TOKEN"
	if token == "" && !isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		from = expand(first(getenv("HF_TOKEN_PATH"), filepath.Join(home, "token")), getenv)
		data, err := os.ReadFile(from)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the hub's token: %w", err)
		}
		token = string(data)
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s: the token holds characters that no token has", from)
	}
	return token, nil
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// expand replaces ~ and variables in a path.
func expand(path string, getenv func(string) string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		path = userHome(getenv) + rest
	}
	return os.Expand(path, getenv)
}

func userHome(getenv func(string) string) string {
	return first(getenv("HOME"), getenv("USERPROFILE"))
}

// isTrue reads a switch as huggingface_hub does.
func isTrue(text string) bool {
	switch strings.ToUpper(text) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}
