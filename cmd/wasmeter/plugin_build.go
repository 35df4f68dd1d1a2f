package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/plugin"
	"github.com/wasmeter/wasmeter/sdk/conformance"
	"github.com/wasmeter/wasmeter/sdk/toolchain"
)

func newPluginBuild(t terminal) *cobra.Command {
	var out string
	var asJSON bool
	command := &cobra.Command{
		Use:   "build [DIR|FILE] [flags]",
		Short: "Build a plugin from its sources",
		Long: `Build the plugin in a folder, by default this one, into NAME.wasm beside its
sources, and say what it is and which grants it needs. The language is that of the
sources; where a folder has several of them, name the one that is compiled first.
NAME is that file's, in Go that of the module.

The compiler is looked for in the PATH and where sdk/toolchains.sh installs it; GO,
ZIG, ASC, RUSTC and WASM_LD name others. If it is missing or has another version,
the command says what to install. The SDK is the one in the folder wasmeter beside
the sources, or else the one in this program.

The same sources and the same compiler give the same bytes in any folder, so that
the hash pins them (plugins: sha256).`,
		Example: `  wasmeter plugin build
  wasmeter plugin build billing --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			project, err := toolchain.Find(folderOf(args))
			if err != nil {
				return err
			}
			built, err := project.Build(c.Context(), out)
			if err != nil {
				return err
			}
			spec, err := folderSpec(project.Dir, built.File)
			if err != nil {
				return err
			}
			setting := "{}"
			if len(spec.Config) > 0 {
				setting = string(spec.Config)
			}
			report, err := conformance.Inspect(c.Context(), built.Wasm, setting)
			if err != nil {
				return fmt.Errorf("%s: %w", built.File, err)
			}
			if report.Refused == "" {
				if err := tryLoad(c.Context(), spec); err != nil {
					return fmt.Errorf("%s is built, and a server would not load it: %w", relative(built.File), err)
				}
			}
			if asJSON {
				return json.NewEncoder(t.out).Encode(struct {
					File     string `json:"file"`
					Language string `json:"language"`
					Compiler string `json:"compiler"`
					*conformance.Report
				}{relative(built.File), string(project.Language), built.Compiler, report})
			}
			return printBuilt(t.out, built, report)
		},
	}
	command.Flags().StringVarP(&out, "out", "o", "", "`file` to write instead of NAME.wasm beside the sources")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON: the file, the compiler, and what wasmeter plugin inspect says")
	return command
}

// tryLoad loads a plugin as a server does that grants it everything, and so finds
// what no grant allows.
func tryLoad(ctx context.Context, spec plugin.Spec) error {
	host, err := plugin.NewHost(ctx, offlineHost())
	if err != nil {
		return err
	}
	spec.Grants = plugin.Everything()
	loaded, err := host.Load(ctx, spec)
	if err == nil {
		err = loaded.Close(ctx)
	}
	return errors.Join(err, host.Close(ctx))
}

func printBuilt(out io.Writer, built *toolchain.Built, r *conformance.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// tabwriter keeps the first error for Flush.
	fmt.Fprintf(table, "file\t%s\ncompiler\t%s\nbytes\t%d\nsha256\t%s\n", relative(built.File), built.Compiler, r.Bytes, r.SHA256)
	grants := strings.Join(r.Grants, ", ")
	switch {
	case r.Refused != "":
		fmt.Fprintf(table, "hooks\tunknown: %s; %s in its folder may hold a configuration for it\n", strings.TrimSpace(r.Refused), folderConfig)
	case len(r.Hooks) == 0:
		fmt.Fprintf(table, "hooks\tnone; this plugin does nothing\n")
	default:
		fmt.Fprintf(table, "hooks\t%s\n", strings.Join(r.Hooks, ", "))
		for _, hook := range r.Hooks {
			if hook == "shape" {
				grants = strings.TrimPrefix(grants+", fields: [names that shape writes]", ", ")
			}
		}
	}
	if grants == "" {
		grants = "none"
	}
	fmt.Fprintf(table, "grants\t%s\n", grants)
	return table.Flush()
}

// folderOf is the folder that an optional argument names.
func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// relative shortens a path below the working directory.
func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rest, below := strings.CutPrefix(path, here+string(os.PathSeparator)); below {
		return rest
	}
	return path
}
