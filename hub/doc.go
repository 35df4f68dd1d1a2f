// Package hub brings models from a Hugging Face hub, or from a server that
// speaks its protocol, into the cache on disk that huggingface_hub keeps: what
// either has fetched, the other finds.
//
// # Protocol
//
// Three requests do. GET /api/models/{repo}/revision/{revision} tells the
// commit of a branch or tag; GET /api/models/{repo}/tree/{commit} lists its
// files in pages, each with its size and hash; GET
// /{repo}/resolve/{commit}/{file} gives a file, mostly by a redirection to
// another host. Documentation: https://huggingface.co/docs/hub/api, and what
// huggingface_hub 2.4.0 asks for when it runs against a server of one's own.
//
// # Cache
//
//	models--org--repo/refs/main                 holds the commit of a revision
//	models--org--repo/snapshots/COMMIT/FILE     a relative link into blobs
//	models--org--repo/blobs/HASH                a file's bytes
//	models--org--repo/blobs/HASH.incomplete     the beginning of a file's bytes
//	.locks/models--org--repo/HASH.lock          held (flock) by who fetches it
//
// Documentation: https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
//
// # Trust
//
// A server is not trusted: names that leave the snapshot, files that are longer
// than was said or have another hash are refused, each answer is bounded, and
// the token is told to the endpoint's own host alone.
package hub
