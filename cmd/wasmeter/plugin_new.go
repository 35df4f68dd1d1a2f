package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/sdk/scaffold"
	"github.com/wasmeter/wasmeter/sdk/toolchain"
)

func newPluginNew(t terminal) *cobra.Command {
	var lang, name string
	var language toolchain.Language
	var asJSON bool
	command := &cobra.Command{
		Use:   "new --lang LANGUAGE DIR [flags]",
		Short: "Make a folder with a plugin to begin from",
		Long: `Make a folder with a small plugin that works: it puts a price on each answer and
writes a record of it. The folder has a server's configuration with it, a test, and
the SDK, so that it builds without a network.

Languages: go, as (AssemblyScript), zig, rust, c (by the compiler of Zig).`,
		Example: `  wasmeter plugin new --lang zig billing
  wasmeter plugin build billing && wasmeter plugin test billing
  cd billing && wasmeter serve sim --config wasmeter.yaml`,
		Args: func(c *cobra.Command, args []string) (err error) {
			if lang == "" {
				return errors.New("--lang is missing; it is one of go, as, zig, rust, c")
			}
			if language, err = toolchain.ParseLanguage(lang); err != nil {
				return fmt.Errorf("--lang: %w", err)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := args[0]
			if name == "" {
				absolute, err := filepath.Abs(dir)
				if err != nil {
					return err
				}
				name = strings.ToLower(filepath.Base(absolute))
				if err := scaffold.CheckName(name); err != nil {
					return fmt.Errorf("%w, or give one with --name", err)
				}
			}
			if err := scaffold.Write(dir, language, name); err != nil {
				return err
			}
			project, err := toolchain.Find(dir)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(t.out).Encode(struct {
					Name     string `json:"name"`
					Language string `json:"language"`
					Dir      string `json:"dir"`
					Source   string `json:"source"`
				}{name, string(language), dir, filepath.Join(dir, project.Entry)})
			}
			_, err = fmt.Fprintf(t.out, `%s: a plugin in %s; see its README.md
next:
  wasmeter plugin build %s
  wasmeter plugin test %s
`, filepath.Join(dir, project.Entry), language.Title(), dir, dir)
			return err
		},
	}
	command.Flags().StringVar(&lang, "lang", "", "`language`: go, as, zig, rust or c")
	command.Flags().StringVar(&name, "name", "", "`name` of the plugin and its module, of a-z, 0-9, - and _ (default the folder's)")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}
