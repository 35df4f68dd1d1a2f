// Package gguf reads GGUF model files: typed metadata and tensors, as views of
// the mapped file.
//
// A file is hostile until proven otherwise: every length, count and offset is
// checked against the bytes that are there before it is used, so a damaged or
// truncated file gives an error that says where and what to do, never a panic
// and never an allocation that the file's own size does not justify.
//
// The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md,
// versions 2 and 3, little-endian. The block formats of the quantised types
// are those of ggml/src/ggml-common.h and ggml-quants.c.
package gguf
