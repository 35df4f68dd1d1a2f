package host

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// newID is a prefix and 96 random bits.
func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	var text [40]byte
	return string(hex.AppendEncode(append(text[:0], prefix...), b[:]))
}

// newAttempt is a UUIDv7: the time in milliseconds, then random bits. Source: RFC
// 9562, section 5.7.
func newAttempt() string {
	var b [16]byte
	_, _ = rand.Read(b[6:]) // crypto/rand.Read never fails
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (8 * (5 - i)))
	}
	b[6] = 0x70 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	var text [36]byte
	out := text[:0]
	for i, group := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			out = append(out, '-')
		}
		out = hex.AppendEncode(out, group)
	}
	return string(out)
}

// fingerprint is `system_fingerprint`: the same while version, model and
// context are, so that a seed means the same tokens.
func fingerprint(p Parts) string {
	shape := p.Engine.Shape()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", p.Version, shape.Name, shape.Device, p.Engine.Context()))
	return "wasmeter-" + p.Version + "-" + hex.EncodeToString(sum[:4])
}
