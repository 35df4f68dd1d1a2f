package host

import (
	"crypto/sha256"
	"encoding/binary"
)

// cacheRoot names those with whom a request may share computed prefixes: the
// digest of the model, the tenant unless tenants share, and the request's own
// cache_salt. Each part begins with its length, so that no two lists of parts
// are the same bytes.
func (s *Server) cacheRoot(tenant, salt string) [32]byte {
	if s.options.PrefixCacheScope == PrefixCacheGlobal {
		tenant = ""
	}
	var b []byte
	for _, part := range []string{s.parts.Models[0], tenant, salt} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}
