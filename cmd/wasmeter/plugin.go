package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/sdk/conformance"
)

func newPlugin(t terminal) *cobra.Command {
	command := &cobra.Command{
		Use:   "plugin",
		Short: "Make, test, measure, replay and watch plugins",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(newPluginInspect(t), newPluginConformance(t), newPluginRecord(t), newPluginReplay(t), newPluginBench(t))
	command.AddCommand(newPluginAdmin(t)...)
	command.AddCommand(newPluginNew(t), newPluginBuild(t), newPluginTest(t))
	return command
}

// maxModule is more than the server loads.
const maxModule = 64 << 20

// readModule reads a module's file, and refuses one that is no module's size.
func readModule(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	wasm, err := io.ReadAll(io.LimitReader(file, maxModule+1))
	if err == nil && len(wasm) > maxModule {
		err = fmt.Errorf("%s: more than %d bytes; plugins have at most 32 MiB", path, maxModule)
	}
	return wasm, err
}

func newPluginInspect(t terminal) *cobra.Command {
	var config string
	var asJSON bool
	command := &cobra.Command{
		Use:   "inspect FILE [flags]",
		Short: "Say what a plugin is, and which grants it needs",
		Long: `Read a plugin's module and run its init: its hooks, what they want to see, its
imports and the grants that they need, its memory, the fuel that init takes, and
the hash that pins it.`,
		Example: "  wasmeter plugin inspect billing.wasm --plugin-config '{\"input\":2500000,\"output\":10000000}'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			report, err := conformance.Inspect(c.Context(), wasm, config)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				return json.NewEncoder(t.out).Encode(report)
			}
			return printReport(t.out, report)
		},
	}
	command.Flags().StringVar(&config, "plugin-config", "{}", "configuration for init, a JSON `object`")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printReport(out io.Writer, r *conformance.Report) error {
	list := func(words []string) string {
		if len(words) == 0 {
			return "none"
		}
		return strings.Join(words, ", ")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// tabwriter keeps the first error for Flush.
	fmt.Fprintf(table, "bytes\t%d\nsha256\t%s\nexports\t%s\nimports\t%s\n", r.Bytes, r.SHA256, list(r.Exports), list(r.Imports))
	if r.Refused == "" {
		fmt.Fprintf(table, "hooks\t%s\nwants\t%s\nmemory\t%d bytes\ninit fuel\t%d\n", list(r.Hooks), list(r.Wants), r.MemoryBytes, r.InitFuel)
	} else {
		fmt.Fprintf(table, "refused\t%s\n", r.Refused)
	}
	fmt.Fprintf(table, "grants\t%s\n", list(r.Grants))
	return table.Flush()
}

func newPluginConformance(t terminal) *cobra.Command {
	var options conformance.Options
	var asJSON bool
	command := &cobra.Command{
		Use:   "conformance FILE [flags]",
		Short: "Check an SDK by its conformance guest",
		Long: `Run the conformance kit on a guest: a plugin that does what
sdk/conformance/README.md asks, written with the SDK that is to be checked. It ends
with 1 if the guest does not keep to the ABI.`,
		Example: "  wasmeter plugin conformance guest.wasm",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := readModule(args[0])
			if err != nil {
				return err
			}
			results, err := conformance.Run(c.Context(), wasm, options)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printResults(t.out, results, asJSON)
		},
	}
	command.Flags().IntVar(&options.Calls, "calls", 1_000_000, "`number` of calls of the endurance check")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON, one line a check")
	return command
}

func printResults(out io.Writer, results []conformance.Result, asJSON bool) error {
	failed := 0
	lines := json.NewEncoder(out)
	for _, r := range results {
		verdict, why := "ok", ""
		if r.Err != nil {
			verdict, why = "failed", r.Err.Error()
			failed++
		}
		var err error
		if asJSON {
			err = lines.Encode(struct {
				Check   string `json:"check"`
				Verdict string `json:"verdict"`
				Why     string `json:"why,omitempty"`
			}{r.Check, verdict, why})
		} else {
			_, err = fmt.Fprintln(out, strings.TrimSpace(fmt.Sprintf("%-7s %s  %s", verdict, r.Check, strings.ReplaceAll(why, "\n", "\n        "))))
		}
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(results))
	}
	return nil
}
