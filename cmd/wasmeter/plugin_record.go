package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wasmeter/wasmeter/host/plugin/replay"
)

func newPluginRecord(t terminal) *cobra.Command {
	var (
		chosen framesFilter
		keep   replay.Keep
		out    string
		follow bool
		asJSON bool
	)
	command := &cobra.Command{
		Use:   "record LEDGER [flags]",
		Short: "Take requests out of the ledger, for plugin replay",
		Long: `Copy requests from the server's ledger (ledger.path) to a small file that wasmeter
plugin replay and wasmeter plugin bench read. LEDGER may be - for stdin, or compressed with
gzip. A running server's may be read, and with --follow what it adds to it, until this
command is interrupted.

The file has each request's frame: counts, times, model, tenant, and how it ended. It
never has a prompt, an answer or what plugins made of them. What clients chose freely is
left out too: metadata, their x-request-id and idempotency key (--keep-metadata,
--keep-client-ids), and a service tier that is no plain word. An attempt_id, which the
server makes, finds a request in the ledger again.

A last line without its end is told and left out; any other line that is not a
request ends the command with its number.`,
		Example: `  wasmeter plugin record usage.jsonl -o yesterday.frames.gz --since 2026-11-28 --until 2026-11-29
  wasmeter plugin record usage.jsonl --tenant acme --since 24h | wasmeter plugin replay billing.wasm -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			filter, err := chosen.filter(time.Now())
			if err != nil {
				return err
			}
			in, err := openFrames(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			to, err := createFrames(out, t.out, in)
			if err != nil {
				return err
			}
			var source io.Reader = in
			if follow {
				source = &follower{c.Context(), in}
			}
			copied, err := recordFrames(c, to, source, filter, keep)
			if err := errors.Join(err, to.Close()); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printCopied(t.err, copied, asJSON)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&out, "output", "o", "-", "`file` to write, compressed if it ends in .gz; - is stdout")
	chosen.flags(flags)
	flags.BoolVar(&keep.Metadata, "keep-metadata", false, "keep what clients wrote as metadata")
	flags.BoolVar(&keep.ClientIDs, "keep-client-ids", false, "keep the request ids and idempotency keys that clients chose")
	flags.BoolVar(&follow, "follow", false, "go on with what the server adds, until interrupted")
	flags.BoolVar(&asJSON, "json", false, "print the summary, on stderr, as JSON")
	return command
}

func recordFrames(c *cobra.Command, to io.Writer, source io.Reader, filter replay.Filter, keep replay.Keep) (replay.Copied, error) {
	reader, err := replay.NewReader(source)
	if err != nil {
		return replay.Copied{}, err
	}
	return replay.Copy(c.Context(), to, reader, filter, keep)
}

// createFrames makes the file that frames are written to.
func createFrames(path string, stdout io.Writer, in *os.File) (io.WriteCloser, error) {
	if path == "-" {
		return uncloseable{stdout}, nil
	}
	source, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(source, there) {
		return nil, fmt.Errorf("--output: %s is the ledger itself", path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(path, ".gz") {
		return file, nil
	}
	return &zipped{gzip.NewWriter(file), file}, nil
}

// uncloseable is a stream that stays open.
type uncloseable struct{ io.Writer }

func (uncloseable) Close() error { return nil }

// zipped is a compressed file.
type zipped struct {
	*gzip.Writer
	file *os.File
}

func (z *zipped) Close() error { return errors.Join(z.Writer.Close(), z.file.Close()) }

// printCopied goes to stderr, since frames may go to stdout.
func printCopied(to io.Writer, c replay.Copied, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(to).Encode(c)
	}
	text := fmt.Sprintf("recorded %d requests, left out %d", c.Requests, c.Skipped)
	if c.Requests > 0 {
		text += fmt.Sprintf("; they arrived from %s to %s", c.First.UTC().Format(time.RFC3339), c.Last.UTC().Format(time.RFC3339))
	}
	if c.TornBytes > 0 {
		text += fmt.Sprintf("\nthe last line has no end and is left out: %d bytes", c.TornBytes)
	}
	_, err := fmt.Fprintln(to, text)
	return err
}
