// Command _gen writes the assembly of package cpu and the Go declarations of its
// functions:
//
//	go run ./_gen        # in kernels/cpu; the same as go generate
//	go run ./_gen -o DIR
//
// It is a program of its own rather than a library for assemblers because nothing
// more is needed than names, loops and argument offsets, and because the one
// library there is (avo) does not know the VNNI instructions.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("o", ".", "directory to write to")
	flag.Parse()
	write := func(name, suffix, text string) {
		if err := os.WriteFile(filepath.Join(*dir, name+suffix), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "write kernels:", err)
			os.Exit(1)
		}
	}
	for name, f := range map[string]*file{
		"matmul":      matMulFile(),
		"row":         rowFile(),
		"attention":   attentionFile(),
		"panel":       panelFile(),
		"speed":       speedFile(),
		"matmul_half": halfFile(),
		"matmul_amx":  amxFile(),
		"weight":      weightFile(),
	} {
		write(name, "_amd64.s", f.assembly())
		write(name, "_stubs_amd64.go", f.declarations())
	}
	for name, f := range map[string]*neonFile{
		"matmul":    neonMatMulFile(),
		"attention": neonAttentionFile(),
		"row":       neonRowFile(),
		"speed":     neonSpeedFile(),
	} {
		write(name, "_arm64.s", f.assembly())
		write(name, "_stubs_arm64.go", f.declarations())
	}
}
