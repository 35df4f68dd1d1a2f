package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/wasmeter/wasmeter/hub"
)

// progress shows a pull: a bar that is drawn again and again on a terminal, a
// line from time to time elsewhere.
type progress struct {
	out io.Writer
	bar bool
	say func(line string) // without a line's end
	now func() time.Time

	file  string
	begun time.Time
	from  int64     // bytes that were there when the file began
	drawn time.Time // last
	tenth int64     // last that was told, of ten
	open  bool      // the bar's line has no end yet
}

// How often a bar is drawn, and a line written if a tenth takes longer.
const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 30 * time.Second
)

func newProgress(out io.Writer, say func(line string)) *progress {
	return &progress{out: out, bar: isTerminal(out), say: say, now: time.Now}
}

// isTerminal tells whether a person sees what is written.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// report is a hub's Report.
func (p *progress) report(r hub.Progress) {
	if r.Note != "" {
		p.end()
		p.say(strings.TrimPrefix(printable(r.File)+": "+r.Note, ": "))
		return
	}
	now := p.now()
	if r.File != p.file {
		p.end()
		p.file, p.begun, p.from, p.drawn, p.tenth = r.File, now, r.Done, time.Time{}, -1
		if r.Done == r.Size {
			p.from = 0
		}
	}
	whole := r.Done == r.Size
	if p.bar {
		if now.Sub(p.drawn) >= barEvery || whole {
			p.drawn = now
			p.draw(r, now)
		}
		if whole {
			p.end()
		}
		return
	}
	tenth := int64(10)
	if r.Size > 0 {
		tenth = int64(float64(r.Done) / float64(r.Size) * 10)
	}
	if tenth != p.tenth || now.Sub(p.drawn) >= lineEvery {
		p.drawn, p.tenth = now, tenth
		p.say(p.line(r, now))
	}
}

// end ends the bar's line.
func (p *progress) end() {
	if p.open {
		p.open = false
		fmt.Fprintln(p.out) // nothing better can be done about a terminal that fails
	}
}

func (p *progress) draw(r hub.Progress, now time.Time) {
	const cells, longest = 20, 28 // with the figures, a line of 80 columns
	full := cells
	if r.Size > 0 {
		full = int(float64(r.Done) / float64(r.Size) * cells)
	}
	name := []rune(printable(path.Base(r.File)))
	if len(name) > longest { // names differ at their ends
		name = append([]rune{'…'}, name[len(name)-longest+1:]...)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%-*s %s%s %s", longest, string(name), strings.Repeat("█", full), strings.Repeat("░", cells-full), p.figures(r, now))
	p.open = true
}

func (p *progress) line(r hub.Progress, now time.Time) string {
	return printable(r.File) + ": " + p.figures(r, now)
}

// figures are percent, bytes, speed and the time that is left.
func (p *progress) figures(r hub.Progress, now time.Time) string {
	percent := int64(100)
	if r.Size > 0 {
		percent = int64(float64(r.Done) / float64(r.Size) * 100)
	}
	text := fmt.Sprintf("%3d%% of %s", percent, hub.SizeText(r.Size))
	elapsed := now.Sub(p.begun).Seconds()
	if elapsed < 0.5 {
		return text
	}
	speed := float64(r.Done-p.from) / elapsed
	text += fmt.Sprintf(", %s/s", hub.SizeText(int64(speed)))
	if left := time.Duration(float64(r.Size-r.Done) / max(speed, 1) * float64(time.Second)); r.Done < r.Size && left < 100*time.Hour {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}
