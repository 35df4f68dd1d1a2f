package cpu

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wasmeter/wasmeter/engine/gguf"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// Plan implements backend.Planner: it adds up what the tensors take in this
// backend's forms and refuses more than there is.
func (b *Backend) Plan(tensors []gguf.Tensor) error {
	var need uint64
	for _, t := range tensors {
		need += loadedBytes(t)
	}
	free, from := availableMemory(b.system)
	if from == "" || need <= free {
		return nil
	}
	return fmt.Errorf("the weights take %s of memory and %s are free (%s): use a file of smaller weights, or a machine or container with more memory",
		gibibytes(need), gibibytes(free), from)
}

// loadedBytes is the memory that a tensor takes once it is loaded.
func loadedBytes(t gguf.Tensor) uint64 {
	elements := t.Elements()
	cols := t.Shape[0]
	p, packed := packers[t.Type]
	if !packed || elements == cols || cols > 1<<40 {
		return 4 * elements
	}
	// One group's bytes times the groups: Bytes counts in int.
	return uint64(p.bytes(1, int(cols))) * ((elements/cols + kernels.GroupRows - 1) / kernels.GroupRows)
}

func gibibytes(n uint64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

// availableMemory returns the bytes that this process can still take, and what
// bounds them: the machine, or the control group that a container is. from is
// empty where the system does not say. Sources: Linux's
// Documentation/filesystems/proc.rst, MemAvailable, and
// Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
func availableMemory(system fs.FS) (free uint64, from string) {
	take := func(n uint64, what string) {
		if from == "" || n < free {
			free, from = n, what
		}
	}
	if kib, ok := field(system, "proc/meminfo", "MemAvailable:"); ok {
		take(kib<<10, "MemAvailable of the machine")
	}
	groups, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return free, from
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		files := memoryV2
		switch {
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			files = memoryV1
		case fields[1] != "":
			continue
		}
		// A limit of any group above binds too.
		for at := path.Join(files.root, fields[2]); strings.HasPrefix(at, files.root); at = path.Dir(at) {
			limit, limited := number(system, path.Join(at, files.limit))
			used, known := number(system, path.Join(at, files.used))
			if !limited || !known {
				continue
			}
			// Pages of files count as used and are given up for others.
			cached, _ := field(system, path.Join(at, "memory.stat"), files.cached)
			take(limit-min(limit, used-min(used, cached)), fmt.Sprintf("a limit of %s on the control group", gibibytes(limit)))
		}
	}
	return free, from
}

// groupFiles names where a version of control groups says what memory a group has.
type groupFiles struct{ root, limit, used, cached string }

var (
	memoryV2 = groupFiles{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}
	memoryV1 = groupFiles{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
)

// number reads a file of one number; "max" is none.
func number(system fs.FS, name string) (uint64, bool) {
	text, err := fs.ReadFile(system, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field reads the number after a name at the beginning of a line.
func field(system fs.FS, file, name string) (uint64, bool) {
	text, err := fs.ReadFile(system, file)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
