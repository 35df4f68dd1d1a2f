package cases

import (
	"fmt"
	"slices"
	"strings"
)

// Update gives the case's text with the expectations of the steps replaced by
// results. All else stays as it is, comments and spaces too.
func (c *Case) Update(results []Result) ([]byte, error) {
	lines := strings.Split(string(c.text), "\n")
	if len(results) != len(c.Steps) {
		return nil, fmt.Errorf("%s: %d results of %d steps", c.File, len(results), len(c.Steps))
	}
	// From the end, so that the lines of the steps before stay where they are.
	for i := len(c.Steps) - 1; i >= 0; i-- {
		s := &c.Steps[i]
		want, got := s.Expect.lines(), results[i].lines()
		if slices.Equal(want, got) {
			continue
		}
		if s.flow {
			return nil, fmt.Errorf("%s:%d: a step in braces is not updated; write it in lines, - hook: %s, and its other keys below", c.File, s.line, s.Hook)
		}
		lines = s.splice(lines, got)
	}
	text := []byte(strings.Join(lines, "\n"))
	// What was written must read as what was meant.
	again, err := Read(c.File, text)
	if err != nil {
		return nil, fmt.Errorf("the updated case can't be read, so it is not written: %w", err)
	}
	for i := range again.Steps {
		if got, want := again.Steps[i].Expect.lines(), results[i].lines(); !slices.Equal(got, want) {
			return nil, fmt.Errorf("%s: the updated step %d reads as something else, so it is not written:\n%s", c.File, i+1, diff(want, got))
		}
	}
	return text, nil
}

// splice replaces the lines of the step's expectation, or adds them at its end.
func (s *Step) splice(lines, expectation []string) []string {
	margin := strings.Repeat(" ", s.column-1)
	text := []string{"expect: {}"}
	if len(expectation) > 0 {
		text = append([]string{"expect:"}, indent("  ", slices.Clone(expectation))...)
	}
	if s.expectLine == 0 {
		at := blockEnd(lines, s.line, s.column-1)
		return slices.Insert(lines, at, indent(margin, text)...)
	}
	first := s.expectLine - 1
	end := blockEnd(lines, s.expectLine, s.column)
	text = indent(margin, text)
	// "- expect:" stands behind its dash.
	text[0] = lines[first][:s.column-1] + strings.TrimLeft(text[0], " ")
	return slices.Replace(lines, first, end, text...)
}

// blockEnd gives the index behind the last line of what begins in line from, the
// lines below that are indented by at least that many columns. Blank lines at the
// end don't belong to it.
func blockEnd(lines []string, from, columns int) int {
	end := from
	for i := from; i < len(lines); i++ {
		trimmed := strings.TrimLeft(lines[i], " ")
		if strings.TrimSpace(trimmed) == "" {
			continue
		}
		if len(lines[i])-len(trimmed) < columns {
			break
		}
		end = i + 1
	}
	return end
}
