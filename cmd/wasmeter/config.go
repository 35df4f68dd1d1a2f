package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/config"
)

func newConfig(t terminal) *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Show or check the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(newConfigShow(t), newConfigCheck(t))
	return command
}

func newConfigShow(t terminal) *cobra.Command {
	var file string
	var origin bool
	command := &cobra.Command{
		Use:   "show [flags]",
		Short: "Print the configuration that serve would use",
		Long: `Print, as YAML, the configuration that serve would use with the same file,
environment and flags. Secrets are not shown.`,
		Example: `  wasmeter config show > wasmeter.yaml
  WASMETER_SERVER__PORT=9000 wasmeter config show --origin --config wasmeter.yaml --threads 4`,
		Args: cobra.NoArgs,
	}
	flags := config.NewFlags(command.Flags())
	command.Flags().StringVar(&file, "config", "", "YAML `file` to read")
	command.Flags().BoolVar(&origin, "origin", false, "say where each value came from")
	groupFlags(command, flags, "")
	command.RunE = func(*cobra.Command, []string) error {
		c, err := config.Load(config.Sources{File: file, Environ: t.environ, Flags: flags})
		if err != nil {
			return err
		}
		return c.Print(t.out, origin)
	}
	return command
}

func newConfigCheck(t terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file",
		Long: `Check a configuration file and the environment variables: every key and value,
and what contradicts itself. Files that it names are not opened.`,
		Example: "  wasmeter config check wasmeter.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := config.Load(config.Sources{File: args[0], Environ: t.environ}); err != nil {
				return err
			}
			_, err := fmt.Fprintf(t.out, "%s: good\n", args[0])
			return err
		},
	}
}
