package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/sdk/cases"
)

// caseRun is a run of wasmeter plugin test.
type caseRun struct {
	terminal
	module, only   string
	update, asJSON bool
}

func newPluginTest(t terminal) *cobra.Command {
	run := caseRun{terminal: t}
	command := &cobra.Command{
		Use:   "test [DIR] [flags]",
		Short: "Run a plugin's test cases",
		Long: `Run the cases of a plugin's folder, tests/*.yaml, on its module. A case says what
the server knows of a request and which hooks it calls, and what the plugin is
expected to answer, to record, to count and to say: what a case does not expect must
not happen. It may bound the fuel of a call.

  about: a chat answer of 8 tokens to a prompt of 23
  max_fuel: 100_000
  frame: {tenant: acme, model: sim, prompt_tokens: 23, completion_tokens: 8}
  steps:
    - hook: shape
      expect:
        fields:
          billing: {"cost_micro_usd": 138, "currency": "USD"}

The plugin is configured as wasmeter.yaml in its folder says, or by the case's own
key plugin. Each case runs compiled and interpreted, in the server's own sandbox,
and must do the same in both to the unit of fuel. sdk/cases/README.md has all keys.

It ends with 1 if a case is not as expected.`,
		Example: `  wasmeter plugin test
  wasmeter plugin test billing --run price
  wasmeter plugin test billing --update && git diff billing/tests`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return run.run(c.Context(), folderOf(args)) },
	}
	command.Flags().StringVar(&run.module, "wasm", "", "`file` of the module (default the folder's)")
	command.Flags().StringVar(&run.only, "run", "", "only the cases whose file's name holds this `text`")
	command.Flags().BoolVar(&run.update, "update", false, "write what the plugin does into the cases, as what is expected")
	command.Flags().BoolVar(&run.asJSON, "json", false, "print JSON, one line a case")
	return command
}

// caseFolder is where a plugin's folder has its cases.
const caseFolder = "tests"

func (r *caseRun) run(ctx context.Context, dir string) (err error) {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	all, err := filepath.Glob(filepath.Join(dir, caseFolder, "*.yaml"))
	if err != nil {
		return err
	}
	var files []string
	for _, file := range all {
		if strings.Contains(filepath.Base(file), r.only) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no such case; see wasmeter plugin test --help for one", filepath.Join(dir, caseFolder, "*.yaml"))
	}
	module := r.module
	if module == "" {
		var stale bool
		if module, stale, err = folderModule(dir); err != nil {
			return err
		}
		if stale {
			fmt.Fprintf(r.err, "wasmeter: %s is older than its sources; wasmeter plugin build %s makes it again\n", relative(module), dir)
		}
	}
	spec, err := folderSpec(dir, module)
	if err != nil {
		return err
	}
	runner, err := cases.NewRunner(ctx, spec, offlineHost())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close(ctx)) }()
	failed := 0
	for _, file := range files {
		report, err := r.one(ctx, runner, file)
		if err != nil {
			return err
		}
		if err := report.print(r.out, r.asJSON); err != nil {
			return err
		}
		if report.Verdict == "failed" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(files))
	}
	return nil
}

// one runs one case. A case that can't be run has failed; the error is of what
// has nothing to do with it.
func (r *caseRun) one(ctx context.Context, runner *cases.Runner, file string) (*caseReport, error) {
	report := &caseReport{Case: file, Verdict: "failed"}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := cases.Read(file, text)
	if err != nil {
		report.Why = append(report.Why, err.Error())
		return report, nil
	}
	report.About = c.About
	verdict, err := runner.Run(ctx, c)
	if err != nil {
		report.Why = append(report.Why, err.Error())
		return report, nil
	}
	report.Steps, report.Fuel, report.MaxFuel, report.Why = len(verdict.Results), verdict.Fuel, c.MaxFuel, verdict.Faults
	if len(verdict.Faults) == 0 {
		report.Verdict = "ok"
	}
	if !r.update || verdict.Differences == 0 {
		return report, nil
	}
	updated, err := c.Update(verdict.Results)
	if err != nil {
		report.Why = append(report.Why, err.Error())
		return report, nil
	}
	if err := os.WriteFile(file, updated, 0o644); err != nil {
		return nil, err
	}
	if verdict.Differences == len(verdict.Faults) { // there was nothing else
		report.Verdict, report.Why = "updated", nil
	}
	return report, nil
}

// caseReport is a line about a case.
type caseReport struct {
	Case    string   `json:"case"`
	About   string   `json:"about,omitempty"`
	Verdict string   `json:"verdict"` // ok, failed or updated
	Steps   int      `json:"steps"`
	Fuel    int64    `json:"fuel"` // the most that a step used
	MaxFuel int64    `json:"max_fuel,omitempty"`
	Why     []string `json:"why,omitempty"`
}

func (r *caseReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	fuel := fmt.Sprintf("%d steps, %d units of fuel at most", r.Steps, r.Fuel)
	if r.MaxFuel > 0 {
		fuel += fmt.Sprintf(" of %d", r.MaxFuel)
	}
	if r.Steps == 0 {
		fuel = ""
	}
	if _, err := fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-8s%s  %s", r.Verdict, r.Case, fuel), " ")); err != nil {
		return err
	}
	for _, why := range r.Why {
		if _, err := fmt.Fprintf(out, "        %s\n", strings.ReplaceAll(strings.TrimRight(why, "\n"), "\n", "\n        ")); err != nil {
			return err
		}
	}
	return nil
}
