package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Limits of a token in a file, in characters.
const (
	leastToken = 16
	mostToken  = 1024
)

// Token is the secret that operators show. Only its hash is kept.
type Token struct{ hash [sha256.Size]byte }

// matches tells whether shown is the token. Its time says nothing of how much
// of it is right.
func (t Token) matches(shown string) bool {
	sum := sha256.Sum256([]byte(shown))
	return subtle.ConstantTimeCompare(sum[:], t.hash[:]) == 1
}

// ReadToken reads a token from a file, as operators and Kubernetes write it:
// a line, with or without its end.
func ReadToken(path string) (Token, error) {
	text, err := ReadTokenText(path)
	if err != nil {
		return Token{}, err
	}
	return Token{sha256.Sum256([]byte(text))}, nil
}

// ReadTokenText reads the token itself, for a client that shows it.
func ReadTokenText(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostToken+2))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if len(text) < leastToken || len(text) > mostToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: no token; it is one line of %d to %d printable ASCII characters without spaces, such as openssl rand -hex 32 makes", path, leastToken, mostToken)
	}
	return text, nil
}

// MakeToken makes a token and writes it to a file that only this user can read.
func MakeToken(path string) (Token, error) {
	text := rand.Text()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Token{}, err
	}
	// Written beside its place and moved there, so that neither another user's
	// file nor a link of that name is written to.
	file, err := os.CreateTemp(dir, ".token-*") // mode 0600
	if err != nil {
		return Token{}, err
	}
	defer os.Remove(file.Name()) // gone already where the rename went well
	_, err = file.WriteString(text + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return Token{}, fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return Token{}, err
	}
	return Token{sha256.Sum256([]byte(text))}, nil
}

// TokenFiles are the places where a server that was given no token puts the one
// that it makes, the best first: by its port in the folder wasmeter of the
// user's runtime files, or else of the user's state. It is empty for a user who
// has neither.
func TokenFiles(port string) []string {
	name := filepath.Join("wasmeter", "admin-"+port+".token")
	var files []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, name))
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, name))
	} else if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".local", "state", name))
	}
	return files
}
