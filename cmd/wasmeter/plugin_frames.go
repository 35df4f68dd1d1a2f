package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/wasmeter/wasmeter/host/plugin/replay"
)

// framesFilter is the flags that choose requests.
type framesFilter struct {
	since, until    string
	tenants, models []string
}

func (f *framesFilter) flags(set *pflag.FlagSet) {
	set.StringVar(&f.since, "since", "", "first arrival: a `time` such as 2026-11-28, 2026-11-28T06:00:00Z, or 24h ago as 24h")
	set.StringVar(&f.until, "until", "", "end: requests that arrived before this `time`")
	set.StringSliceVar(&f.tenants, "tenant", nil, "only these tenants: `names`, or beginnings with * behind them")
	set.StringSliceVar(&f.models, "model", nil, "only these models: `names`, or beginnings with * behind them")
}

func (f *framesFilter) filter(now time.Time) (replay.Filter, error) {
	since, err := parseMoment(f.since, now)
	if err != nil {
		return replay.Filter{}, fmt.Errorf("--since: %w", err)
	}
	until, err := parseMoment(f.until, now)
	if err != nil {
		return replay.Filter{}, fmt.Errorf("--until: %w", err)
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return replay.Filter{}, fmt.Errorf("--until: %s is not after --since, %s", until.Format(time.RFC3339), since.Format(time.RFC3339))
	}
	return replay.Filter{Since: since, Until: until, Tenants: f.tenants, Models: f.models}, nil
}

// parseMoment reads a time, a day in UTC, or how long ago; empty is the zero
// time.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time; write 2026-11-28, 2026-11-28T06:00:00Z or, for a day ago, 24h", text)
}

// openFrames opens a file of frames, "-" for stdin.
func openFrames(path string) (*os.File, error) {
	if path == "-" {
		return os.Stdin, nil
	}
	return os.Open(path)
}

// follower reads a file that grows, until ctx ends.
type follower struct {
	ctx  context.Context
	file io.Reader
}

// followEvery is how often a follower looks for more.
const followEvery = 200 * time.Millisecond

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		n, err := f.file.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-ticker.C:
		}
	}
}
