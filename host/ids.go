package host

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// newID is a prefix and 96 random bits.
func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return prefix + hex.EncodeToString(b[:])
}

// fingerprint is `system_fingerprint`: the same while version, model and
// context are, so that a seed means the same tokens.
func fingerprint(p Parts) string {
	shape := p.Engine.Shape()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", p.Version, shape.Name, shape.Device, p.Engine.Context()))
	return "wasmeter-" + p.Version + "-" + hex.EncodeToString(sum[:4])
}
