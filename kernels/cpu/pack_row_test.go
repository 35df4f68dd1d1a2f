package cpu

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Rows that are placed one by one, in any order, are what PackQ8_0 makes of the same blocks.
func TestPlaceQ8_0(t *testing.T) {
	r := random()
	for _, k := range []int{32, 64, 96, 256} {
		const rows = 2 * GroupRows
		blocks := k / BlockColumns
		packed := make([]byte, FormQ8_0.Bytes(rows, k))
		placed := bytes.Repeat([]byte{0xa5}, len(packed))
		var source []byte
		q, meta := make([]int8, rows*k), make([]Meta, rows*blocks)
		generic().Quantize(q, meta, normals(r, rows*k))
		for i, m := range meta {
			source = binary.LittleEndian.AppendUint16(source, F16FromF32(m.D))
			for _, code := range q[i*BlockColumns:][:BlockColumns] {
				source = append(source, byte(code))
			}
		}
		if err := PackQ8_0(packed, source, rows, k); err != nil {
			t.Fatal(err)
		}
		size := len(packed) / 2 // of a group
		for _, row := range r.Perm(rows) {
			PlaceQ8_0(placed[row/GroupRows*size:][:size], row%GroupRows, q[row*k:][:k], meta[row*blocks:][:blocks])
		}
		if !bytes.Equal(placed, packed) {
			t.Errorf("%d columns: rows that are placed differ from rows that are packed", k)
		}
	}
}
