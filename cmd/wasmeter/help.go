package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wasmeter/wasmeter/config"
)

// groupFlags makes the help of a command show its configuration under headings,
// without one section that does not concern it, "" for all.
func groupFlags(command *cobra.Command, flags *config.Flags, without string) {
	command.SetUsageFunc(func(c *cobra.Command) error {
		var b strings.Builder
		fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
		if c.HasExample() {
			fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
		}
		if c.HasAvailableSubCommands() {
			b.WriteString("\nCommands:\n")
			for _, sub := range c.Commands() {
				if sub.IsAvailableCommand() {
					fmt.Fprintf(&b, "  %-12s %s\n", sub.Name(), sub.Short)
				}
			}
		}
		grouped := make(map[string]bool)
		for _, group := range flags.Groups() {
			group.Set.VisitAll(func(f *pflag.Flag) { grouped[f.Name] = true })
			if group.Section != without {
				fmt.Fprintf(&b, "\n%s:\n%s", group.Title, group.Set.FlagUsages())
			}
		}
		others := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !grouped[f.Name] {
				others.AddFlag(f)
			}
		})
		fmt.Fprintf(&b, "\nOther:\n%s", others.FlagUsages())
		_, err := fmt.Fprint(c.OutOrStderr(), b.String())
		return err
	})
}

// flagError names the flag that may have been meant by one that is not known.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}
