//go:build cuda && cgo && linux

package suite

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of kernels in kernels/cuda/README.md")

// The table stands between these lines.
const (
	tableBegin = "<!-- kernels: go test -tags cuda ./kernels/cuda/suite -run Table -update -->\n"
	tableEnd   = "<!-- end of kernels -->\n"
)

// inSteps are the kernels that steps of a model launch: what engine/backend/cuda's
// launch.go calls, for models of any kind.
var inSteps = []string{"embed", "rms_norm", "rms_norm_add", "rms_norm_add_norm", "finish_heads", "attend_", "matmul_", "sample_"}

// TestTable: README.md has a row for each kernel and for nothing else, and each kernel has
// at least as many cases and timed sizes as its row says.
func TestTable(t *testing.T) {
	cases, speeds := make(map[string]int), make(map[string]int)
	for _, c := range Cases() {
		cases[c.Kernel]++
	}
	for _, s := range Speeds() {
		speeds[s.Kernel]++
	}
	var made strings.Builder
	made.WriteString("| kernel | cases | sizes timed | in backendtest and whole models |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		used := "no"
		if slices.ContainsFunc(inSteps, func(part string) bool {
			return name == part || strings.HasSuffix(part, "_") && strings.HasPrefix(name, part)
		}) {
			used = "yes"
		}
		fmt.Fprintf(&made, "| `%s` | %d | %d | %s |\n", name, cases[name], speeds[name], used)
	}

	path := filepath.Join(sourceFolder(t), "README.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), tableBegin)
	have, tail, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no lines %q and %q", path, tableBegin, tableEnd)
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+tableBegin+made.String()+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		have = made.String()
	}
	const hint = "; go test -tags cuda ./kernels/cuda/suite -run Table -update writes the table again"
	listed := make(map[string]bool)
	for line := range strings.Lines(have) {
		var name string
		var numCases, numSpeeds int
		if n, _ := fmt.Sscanf(strings.ReplaceAll(line, "`", ""), "| %s | %d | %d |", &name, &numCases, &numSpeeds); n < 3 {
			continue // the head
		}
		if listed[name] = true; numCases > cases[name] || numSpeeds > speeds[name] {
			t.Errorf("%s: %d cases and %d timed sizes, and %s promises %d and %d%s", name, cases[name], speeds[name], path, numCases, numSpeeds, hint)
		}
	}
	for name := range cases {
		if !listed[name] {
			t.Errorf("%s is not in %s%s", name, path, hint)
		}
	}
}
