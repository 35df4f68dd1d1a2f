// Package keys knows who may ask: API keys, the tenants they stand for, and the
// file that holds their hashes. A key itself is shown once, when it is made, and
// kept nowhere.
//
// The file is YAML:
//
//	keys:
//	  - name: alice          # names the key in frames, logs and records
//	    tenant: acme         # who pays; default: the name
//	    sha256: 9f86d0…      # of the key, 64 hex digits
//	  - name: batch
//	    tenant: acme
//	    env: BATCH_KEY       # or the environment variable that holds the key
package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Owner is whom a key stands for.
type Owner struct {
	// Name is the key's, Tenant whoever pays for it.
	Name, Tenant string
}

// Ring is a set of keys. It is not changed once made, and may be used by many
// goroutines. The zero value and nil hold none.
type Ring struct {
	hashes [][sha256.Size]byte
	owners []Owner
}

// Len is the number of keys.
func (r *Ring) Len() int {
	if r == nil {
		return 0
	}
	return len(r.hashes)
}

// Find tells whom a key stands for. Its time does not depend on which key it is,
// nor on how much of one is right: hashes are compared, in constant time, with
// every key of the ring.
func (r *Ring) Find(key string) (Owner, bool) {
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range r.hashes {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], r.hashes[i][:]), i, found)
	}
	if found < 0 {
		return Owner{}, false
	}
	return r.owners[found], true
}

// add puts a hash into the ring.
func (r *Ring) add(hash [sha256.Size]byte, o Owner) error {
	for i := range r.hashes {
		if r.hashes[i] == hash {
			return fmt.Errorf("%q and %q are the same key", r.owners[i].Name, o.Name)
		}
		if r.owners[i].Name == o.Name {
			return fmt.Errorf("two keys are named %q", o.Name)
		}
	}
	r.hashes = append(r.hashes, hash)
	r.owners = append(r.owners, o)
	return nil
}

// Add puts a key that is given in clear into the ring.
func (r *Ring) Add(key string, o Owner) error {
	if key == "" {
		return fmt.Errorf("key %q is empty", o.Name)
	}
	return r.add(sha256.Sum256([]byte(key)), o)
}

// file is the form of a keys file.
type file struct {
	Keys []entry `yaml:"keys"`
}

type entry struct {
	Name   string `yaml:"name"`
	Tenant string `yaml:"tenant,omitempty"`
	SHA256 string `yaml:"sha256,omitempty"`
	Env    string `yaml:"env,omitempty"`
}

// maxFile bounds a keys file: some ten thousand keys.
const maxFile = 4 << 20

// Load reads a keys file. Every fault is reported, with the key's name.
func Load(path string, getenv func(string) string) (*Ring, error) {
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	r := &Ring{}
	var faults []error
	for i, e := range f.Keys {
		if err := r.addEntry(e, getenv); err != nil {
			faults = append(faults, fmt.Errorf("%s: key %d: %w", path, i+1, err))
		}
	}
	if len(f.Keys) == 0 {
		faults = append(faults, fmt.Errorf("%s: no keys; add one with: wasmeter keys add NAME --file %s", path, path))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Ring) addEntry(e entry, getenv func(string) string) error {
	if err := validName(e.Name); err != nil {
		return err
	}
	o := Owner{Name: e.Name, Tenant: e.Tenant}
	if o.Tenant == "" {
		o.Tenant = o.Name
	}
	if err := validName(o.Tenant); err != nil {
		return fmt.Errorf("%q: tenant: %w", e.Name, err)
	}
	switch {
	case (e.SHA256 == "") == (e.Env == ""):
		return fmt.Errorf("%q: give exactly one of sha256 and env", e.Name)
	case e.Env != "":
		key := getenv(e.Env)
		if key == "" {
			return fmt.Errorf("%q: the environment variable %s is not set", e.Name, e.Env)
		}
		return r.Add(key, o)
	}
	sum, err := hex.DecodeString(e.SHA256)
	if err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%q: sha256: %d characters that are not 64 hex digits; wasmeter keys add makes them", e.Name, len(e.SHA256))
	}
	return r.add([sha256.Size]byte(sum), o)
}

// validName keeps names printable in headers, labels and logs.
func validName(s string) error {
	if s == "" || len(s) > 64 || strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) >= 0 {
		return fmt.Errorf("name %q: use 1 to 64 visible ASCII characters without quotes", s)
	}
	return nil
}

func read(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxFile {
		return file{}, fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	return parse(path, data)
}

func parse(path string, data []byte) (file, error) {
	var out file
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return file{}, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// Make adds a new key to a keys file, which is made if it is missing, and
// returns the key. Only its hash is written. Comments in the file are kept.
func Make(path string, o Owner) (key string, err error) {
	if err := validName(o.Name); err != nil {
		return "", err
	}
	if o.Tenant != "" {
		if err := validName(o.Tenant); err != nil {
			return "", fmt.Errorf("tenant: %w", err)
		}
	}
	var secret [20]byte
	_, _ = rand.Read(secret[:]) // crypto/rand.Read never fails
	key = "wm-" + strings.ToLower(base32.StdEncoding.EncodeToString(secret[:]))
	sum := sha256.Sum256([]byte(key))
	e := entry{Name: o.Name, Tenant: o.Tenant, SHA256: hex.EncodeToString(sum[:])}

	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := parse(path, before)
	if err != nil {
		return "", err
	}
	for _, old := range f.Keys {
		if old.Name == o.Name {
			return "", fmt.Errorf("%s: two keys are named %q; take another name", path, o.Name)
		}
	}
	return key, appendEntry(path, before, e)
}

// appendEntry writes the file with one more key, whole or not at all.
func appendEntry(path string, before []byte, e entry) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(before, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		if err := doc.Encode(file{Keys: []entry{e}}); err != nil {
			return err
		}
	} else {
		var node yaml.Node
		if err := node.Encode(e); err != nil {
			return err
		}
		list := member(doc.Content[0], "keys")
		if list == nil || list.Kind != yaml.SequenceNode {
			return fmt.Errorf("%s: no list `keys`", path)
		}
		list.Content = append(list.Content, &node)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone already where the rename went well
	_, err = temp.Write(out.Bytes())
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}

func member(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}
