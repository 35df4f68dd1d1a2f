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
	for name, f := range map[string]*file{
		"matmul":      matMulFile(),
		"row":         rowFile(),
		"attention":   attentionFile(),
		"speed":       speedFile(),
		"matmul_half": halfFile(),
		"weight":      weightFile(),
	} {
		for suffix, text := range map[string]string{"_amd64.s": f.assembly(), "_stubs_amd64.go": f.declarations()} {
			path := filepath.Join(*dir, name+suffix)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				fmt.Fprintln(os.Stderr, "write kernels:", err)
				os.Exit(1)
			}
		}
	}
}
