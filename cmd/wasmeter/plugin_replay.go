package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/plugin/replay"
)

// replayFlags are what a replay is told.
type replayFlags struct {
	offline
	chosen      framesFilter
	members     replay.Members
	diff        string
	diffSetting string
	diffBilled  string
	records     string
	top         int
	asJSON      bool
}

func newPluginReplay(t terminal) *cobra.Command {
	f := replayFlags{members: replay.DefaultMembers()}
	command := &cobra.Command{
		Use:   "replay FILE FRAMES [flags]",
		Short: "Run recorded requests through a plugin, and compare invoices",
		Long: `Hand the requests of FRAMES, which is written by wasmeter plugin record or is the
server's ledger itself, to a plugin: its shape, for those that got an answer, and its
finish. Sum what its records say requests cost, by tenant, model and currency. FILE is a
module, or builtin:NAME for one that is part of this program; FRAMES may be - for stdin.

With --diff or --diff-config the requests go through a second plugin, or the same with
another configuration, as the one before; with --diff-billed what was before is what the
ledger itself says was billed. The differences are printed by tenant, and the requests
whose amount changes most.

The plugin sees the flag replay, the time at which each request ended as its clock, no
documents, and the carry of its own shape. Its values (kv) begin empty. The hooks request
and chunk are not called. Nothing that it does has an effect.

--records writes what the plugin emits to a new file, a JSON object a line with attempt,
plugin and index as its key. So corrections are made: see plugins/billing/README.md.

An amount is a number, or a string of one, and is summed as an exact decimal; where its
name has the word micro, as cost_micro_usd has, it counts millionths.`,
		Example: `  wasmeter plugin replay billing.wasm yesterday.frames.gz --plugin-config '{"input":2500000,"output":10000000}'
  wasmeter plugin replay billing.wasm usage.jsonl --plugin-config tomorrow.yaml --diff-config wasmeter.yaml
  wasmeter plugin replay new.wasm usage.jsonl --plugin-config wasmeter.yaml --diff old.wasm --json
  wasmeter plugin replay billing.wasm usage.jsonl --plugin-config wasmeter.yaml --diff-billed billing`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := f.run(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if f.asJSON {
				return json.NewEncoder(t.out).Encode(report)
			}
			return printReplay(t.out, report)
		},
	}
	flags := command.Flags()
	f.offline.flags(flags)
	flags.StringVar(&f.diff, "diff", "", "module `file` to compare with, as what was before; without it and with --diff-config the same module")
	flags.StringVar(&f.diffSetting, "diff-config", "", "configuration of what was before, without it that of --plugin-config: "+settingUsage)
	flags.StringVar(&f.diffBilled, "diff-billed", "", "compare with the records of the plugin of this `name` in FRAMES, which is the ledger's own file")
	flags.StringVar(&f.records, "records", "", "new `file` for the records that the plugin emits")
	command.MarkFlagsMutuallyExclusive("diff-billed", "diff")
	command.MarkFlagsMutuallyExclusive("diff-billed", "diff-config")
	flags.StringSliceVar(&f.members.Amounts, "amount", f.members.Amounts, "`names` of the member of a record that is its amount; the first that it has counts")
	flags.StringVar(&f.members.Currency, "currency", f.members.Currency, "`name` of the member of a record that is its currency")
	flags.IntVar(&f.top, "top", 10, "`number` of the largest changes to print")
	f.chosen.flags(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print JSON; amounts are strings")
	return command
}

func (f *replayFlags) run(ctx context.Context, file, frames string) (report *replay.Report, err error) {
	const mostTop = 10_000
	if f.top < 0 || f.top > mostTop {
		return nil, fmt.Errorf("--top: %d; 0 to %d", f.top, mostTop)
	}
	filter, err := f.chosen.filter(time.Now())
	if err != nil {
		return nil, err
	}
	in, err := openFrames(frames)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	reader, err := replay.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", frames, err)
	}
	end := context.WithoutCancel(ctx)
	after, err := f.load(ctx, file, f.setting)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, after.Close(end)) }()
	if f.records != "" {
		// Not one that exists: its records may be on their way to customers.
		file, openErr := os.OpenFile(f.records, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if openErr != nil {
			return nil, fmt.Errorf("--records: %w", openErr)
		}
		buffered := bufio.NewWriter(file)
		after.WriteRecords(buffered)
		defer func() {
			if err = errors.Join(err, buffered.Flush(), file.Sync(), file.Close()); err != nil {
				err = errors.Join(err, os.Remove(f.records)) // half of the records are not to be taken for all
			}
		}()
	}
	var before replay.Side
	if f.diffBilled != "" {
		before = replay.NewBilled(f.diffBilled, f.members)
	}
	if f.diff != "" || f.diffSetting != "" {
		old, setting := f.diff, f.diffSetting
		if old == "" {
			old = file
		}
		if setting == "" {
			setting = f.setting
		}
		pricer, loadErr := f.load(ctx, old, setting)
		if loadErr != nil {
			return nil, fmt.Errorf("before: %w", loadErr)
		}
		defer func() { err = errors.Join(err, pricer.Close(end)) }()
		before = pricer
	}
	report, err = replay.Run(ctx, reader, replay.Options{Filter: filter, Top: f.top}, after, before)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", frames, err)
	}
	return report, nil
}

func (f *replayFlags) load(ctx context.Context, file, setting string) (*replay.Pricer, error) {
	spec, err := f.spec(file, setting)
	if err != nil {
		return nil, err
	}
	pricer, err := replay.Load(ctx, offlineHost(), spec, f.members)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return pricer, nil
}
