//go:build cuda && cgo && linux

package suite

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

var (
	// kernelLists finds EMU_KERNELS(a, b, …), which makes kernels known to the emulated
	// driver: one that is in no list can't be launched there.
	kernelLists = regexp.MustCompile(`(?m)^EMU_KERNELS\(([^)]*)\)`)
	// kernels finds KERNEL name( and what a macro pastes together, name_##DIM(.
	kernels = regexp.MustCompile(`\bKERNEL\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?([\w#]+)\s*\(`)
	// comments can have both.
	comments = regexp.MustCompile(`//[^\n]*`)
)

// sourceFolder is kernels/cuda, wherever the tests run.
func sourceFolder(t *testing.T) string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("the path of this test's source is not in the program")
	}
	return filepath.Join(filepath.Dir(file), "..")
}

// sourceKernels returns the listed kernels of all sources, and the declared ones as
// patterns.
func sourceKernels(t *testing.T) (listed map[string]bool, declared map[string]string) {
	files, err := filepath.Glob(filepath.Join(sourceFolder(t), "*.cu"))
	if err != nil || len(files) == 0 {
		t.Fatalf("sources: got %d, %v", len(files), err)
	}
	listed, declared = map[string]bool{}, map[string]string{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := comments.ReplaceAllString(string(source), "")
		for _, list := range kernelLists.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(list[1], ",") {
				listed[strings.TrimSpace(name)] = true
			}
		}
		for _, k := range kernels.FindAllStringSubmatch(text, -1) {
			declared[k[1]] = filepath.Base(file)
		}
	}
	return listed, declared
}

// TestCoverage: each kernel of the sources has a case and a speed, and there are none
// for others.
func TestCoverage(t *testing.T) {
	listed, declared := sourceKernels(t)
	for pattern, file := range declared {
		found := false
		match := regexp.MustCompile("^" + regexp.MustCompile(`##\w+`).ReplaceAllString(pattern, `\w+`) + "$")
		for name := range listed {
			found = found || match.MatchString(name)
		}
		if !found {
			t.Errorf("%s: kernel %s is in no EMU_KERNELS list", file, pattern)
		}
	}
	cases, speeds := map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	for _, c := range Cases() {
		cases[c.Kernel] = true
		if name := c.Kernel + "/" + c.Name; seen[name] {
			t.Errorf("two cases are named %s: one hides the other's seed and result", name)
		} else {
			seen[name] = true
		}
	}
	for _, s := range Speeds() {
		speeds[s.Kernel] = true
	}
	for name := range listed {
		if !cases[name] {
			t.Errorf("kernel %s has no case", name)
		}
		if !speeds[name] {
			t.Errorf("kernel %s has no speed", name)
		}
	}
	for _, of := range []map[string]bool{cases, speeds} {
		for name := range of {
			if !listed[name] {
				t.Errorf("there is a case for %s, which is no kernel", name)
			}
		}
	}
}
