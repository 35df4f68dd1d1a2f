//go:build cuda && cgo && linux

package driver

import (
	"bytes"
	"math/big"
	"strings"
	"testing"
)

// FuzzCheckImage: whatever is accepted as a fat binary or an ELF file has what its
// header says inside, so that the driver does not read behind it.
func FuzzCheckImage(f *testing.F) {
	f.Add([]byte("\x50\xed\x55\xba\x01\x00\x10\x00\x04\x00\x00\x00\x00\x00\x00\x00code"))
	f.Add([]byte("\x7fELF\x02" + strings.Repeat("\x00", 59)))
	f.Add([]byte(".version 9.0\n.target sm_80\n"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if checkImage(image) != nil {
			return
		}
		end := new(big.Int)
		number := func(at, bytes int) *big.Int {
			n := new(big.Int)
			for i := range bytes {
				n.Add(n, new(big.Int).Lsh(big.NewInt(int64(image[at+i])), uint(8*i)))
			}
			return n
		}
		switch {
		case bytes.HasPrefix(image, []byte("\x50\xed\x55\xba")):
			end.Add(number(6, 2), number(8, 8))
		case bytes.HasPrefix(image, []byte("\x7fELF")):
			end.Add(number(40, 8), end.Mul(number(58, 2), number(60, 2)))
		default:
			if bytes.IndexByte(image, 0) >= 0 {
				t.Error("a text with a NUL was accepted")
			}
		}
		if end.Cmp(big.NewInt(int64(len(image)))) > 0 {
			t.Errorf("an image of %d bytes that ends at %v was accepted", len(image), end)
		}
	})
}
