// Command wasmeter serves a language model over the OpenAI API.
//
// It ends with 0 after a drain, with 1 when it could not start, with 2 when the
// command line is wrong, and with 130 when a second signal cut the drain short.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDrained  = 0
	exitNotStart = 1
	exitUsage    = 2
	exitCut      = 130 // by a second signal; what shells give for an interrupt
)

func main() {
	ctx, drain := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // neither of two is lost
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		drain()
		second := <-signals
		fmt.Fprintf(os.Stderr, "wasmeter: %s again: ended without draining\n", second)
		os.Exit(exitCut)
	}()
	os.Exit(run(ctx, terminal{os.Args[1:], os.Environ(), os.Stdout, os.Stderr}))
}

// terminal is what a command is given to work with.
type terminal struct {
	args    []string
	environ []string
	out     io.Writer // what was asked for
	err     io.Writer // the log, and errors
}

// getenv gives a variable of the environment, "" if it is not set.
func (t terminal) getenv(name string) string {
	for i := len(t.environ) - 1; i >= 0; i-- { // the last one counts
		if value, ok := strings.CutPrefix(t.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
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
	root.AddCommand(newServe(t), newConfig(t), newKeys(t), newModel(t), newPlugin(t), newPull(t), newBench(t), newSelftest(t), newVersion(t), newCompilePlugin())
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
