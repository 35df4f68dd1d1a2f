package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// compilePluginWord is the hidden command that the server runs itself with,
// to compile a plugin's module where it can do no harm.
const compilePluginWord = "compile-plugin"

func newCompilePlugin() *cobra.Command {
	return &cobra.Command{
		Use:    compilePluginWord + " FOLDER SECONDS BYTES",
		Short:  "Compile the metered module on stdin into a cache folder; the server calls this",
		Hidden: true,
		Run: func(cmd *cobra.Command, args []string) {
			if err := plugin.CompileInChild(cmd.Context(), args, os.Stdin); err != nil {
				// Without the program's name before it: the server says the rest.
				fmt.Fprintln(os.Stderr, err)
				os.Exit(exitNotStart)
			}
		},
	}
}

// compileCommand starts newCompilePlugin. It is nil where the program can't
// be found: then the server compiles, and says so.
func compileCommand() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, compilePluginWord}
}
