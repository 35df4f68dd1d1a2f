package wasm

import (
	"errors"
	"fmt"
)

// Section ids of core WebAssembly 2.0.
const (
	SectionCustom    = 0
	SectionType      = 1
	SectionImport    = 2
	SectionFunction  = 3
	SectionTable     = 4
	SectionMemory    = 5
	SectionGlobal    = 6
	SectionExport    = 7
	SectionStart     = 8
	SectionElement   = 9
	SectionCode      = 10
	SectionData      = 11
	SectionDataCount = 12
)

// sectionRank is the place of each section id in a module; the data count
// stands before the code. Rank 0 is no section of core WebAssembly 2.0.
var sectionRank = [...]int{
	SectionType: 1, SectionImport: 2, SectionFunction: 3, SectionTable: 4, SectionMemory: 5, SectionGlobal: 6,
	SectionExport: 7, SectionStart: 8, SectionElement: 9, SectionDataCount: 10, SectionCode: 11, SectionData: 12,
}

// Before reports whether section a stands before section b in a module.
// Neither is a custom section.
func Before(a, b byte) bool { return sectionRank[a] < sectionRank[b] }

// Header is what a module begins with: the magic and version 1.
const Header = "\x00asm\x01\x00\x00\x00"

var (
	errNotWasm   = errors.New("not a WebAssembly module: it must begin with the bytes 00 61 73 6d 01 00 00 00; build the plugin with -target wasm32 or GOARCH=wasm")
	errComponent = errors.New("a WebAssembly component; plugins are core modules: build without the component model (for Go, GOOS=wasip1 GOARCH=wasm; for Rust, the target wasm32-unknown-unknown)")
)

// Sections calls read for each section of a module. It sees to the header
// and to the order of the sections; an error that read leaves in a section
// ends the walk.
func Sections(module []byte, read func(id byte, section *Reader)) error {
	if len(module) < 8 || string(module[:4]) != Header[:4] {
		return errNotWasm
	}
	switch string(module[4:8]) {
	case Header[4:]:
	case "\x0d\x00\x01\x00":
		return errComponent
	default:
		return fmt.Errorf("wasm version bytes % x; version 1 (01 00 00 00) is supported", module[4:8])
	}
	r := NewReader(module[8:], 8)
	for rank := 0; r.More(); {
		id := r.Byte()
		section := r.Sub(r.U32())
		if r.err != nil {
			break
		}
		if id != SectionCustom {
			if int(id) >= len(sectionRank) {
				return fmt.Errorf("section %d at byte %d is not of core wasm 2.0; build without threads, exceptions or garbage collection", id, section.at)
			}
			if sectionRank[id] <= rank {
				return fmt.Errorf("section %d at byte %d is repeated or out of order", id, section.at)
			}
			rank = sectionRank[id]
		}
		read(id, section)
		if section.err != nil {
			return fmt.Errorf("section %d: %w", id, section.err)
		}
	}
	return r.err
}
