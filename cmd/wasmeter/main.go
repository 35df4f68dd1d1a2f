// Command wasmeter serves a language model over the OpenAI API.
//
// It ends with 0 after a drain, with 1 when it could not start, and with 2 when
// the command line is wrong.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDrained  = 0
	exitNotStart = 1
	exitUsage    = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal finds no handler and ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, terminal{os.Args[1:], os.Environ(), os.Stdout, os.Stderr}))
}

// terminal is what a command is given to work with.
type terminal struct {
	args    []string
	environ []string
	out     io.Writer // what was asked for
	err     io.Writer // the log, and errors
}

// run runs one command line and gives the exit code.
func run(ctx context.Context, t terminal) int {
	accepted := false // the command line, so that a command runs
	root := &cobra.Command{
		Use:   "wasmeter",
		Short: "Serve a language model whose answers are yours to extend in WebAssembly",
		Long: `wasmeter serves a GGUF model over the OpenAI API and hands the exact life of each
request to sandboxed plugins, which decide what the answer says about it.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRun:  func(*cobra.Command, []string) { accepted = true },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetArgs(t.args)
	root.SetOut(t.out)
	root.SetErr(t.err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newServe(t), newConfig(t), newKeys(t), newModel(t), newVersion(t))
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitDrained
	case !accepted:
		fmt.Fprintf(t.err, "wasmeter: %v\nsee %s --help\n", err, command.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(t.err, "wasmeter: %v\n", err)
	return exitNotStart
}
