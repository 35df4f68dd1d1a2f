package gguf

import (
	"encoding/binary"
	"fmt"
)

// A cursor walks over the file's bytes and refuses every read that would pass
// the end. Its errors name the byte at which the read began.
type cursor struct {
	data []byte
	pos  int // 0 <= pos <= len(data)
}

// left returns the number of bytes that remain.
func (c *cursor) left() uint64 { return uint64(len(c.data) - c.pos) }

// take returns the next n bytes as a view; what names them in the error.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		return nil, fmt.Errorf("byte %d: %s needs %d bytes, but the file ends at byte %d: it is truncated or damaged, download it again",
			c.pos, what, n, len(c.data))
	}
	b := c.data[c.pos : c.pos+int(n) : c.pos+int(n)]
	c.pos += int(n)
	return b, nil
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// text reads a length and that many bytes. A limit keeps a damaged length from
// becoming a map key or an error message of the file's own size.
func (c *cursor) text(what string, limit uint64) ([]byte, error) {
	at := c.pos
	n, err := c.u64(what)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("byte %d: %s has %d bytes, at most %d are allowed: the file is damaged, download it again", at, what, n, limit)
	}
	return c.take(n, what)
}
