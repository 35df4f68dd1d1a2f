package cpu

import "encoding/binary"

// PlaceQ8_0 makes activations row r of a group of FormQ8_0, as PackQ8_0 does with a row of
// the matrix: codes, and scales in f16. It touches no byte of another row.
func PlaceQ8_0(group []byte, r int, q []int8, meta []Meta) {
	l := &layouts[FormQ8_0]
	for b := range meta {
		s := slot{layout: l, block: group[b*l.blockBytes():][:l.blockBytes()], row: r, scales: l.scalesAt()}
		for column := range BlockColumns / 4 {
			x := q[b*BlockColumns+4*column:][:4]
			four := uint32(uint8(x[0])) | uint32(uint8(x[1]))<<8 | uint32(uint8(x[2]))<<16 | uint32(uint8(x[3]))<<24
			binary.LittleEndian.PutUint32(s.block[64*column+4*r:], four)
		}
		s.half(s.scales, F16FromF32(meta[b].D))
	}
}
