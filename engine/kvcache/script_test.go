package kvcache

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the results in testdata; read the diff")

// TestScripts runs testdata/*.txt. A script is a list of cases, each a command
// in a line, ----, and what it prints up to an empty line:
//
//	pool <blocks> <block size>   makes an empty pool and forgets the tables
//	grow <table> <positions>     makes the table if it is not there
//	need <table> <positions>     the blocks that grow would take
//	slot <table> <position>
//	release <table>
//	share <table> <table>        the second becomes a holder of the first's blocks
//	alloc, free <block>          a block outside of tables
//
// Every command but need and slot prints the tables and the pool afterwards,
// and the invariants are checked.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var s script
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" || strings.HasPrefix(line, "#") {
			if i < len(lines)-1 {
				fmt.Fprintln(&out, line)
			}
			continue
		}
		at := i + 1
		if at >= len(lines) || lines[at] != "----" {
			t.Fatalf("%s:%d: %q is not followed by ----", file, at, line)
		}
		var want []string
		for i += 2; i < len(lines) && lines[i] != ""; i++ {
			want = append(want, lines[i])
		}
		got := s.run(line)
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", line, got)
		if want := strings.Join(want, "\n"); !*update && got != want {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", file, at, line, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script is the state between the commands.
type script struct {
	pool   *Pool
	tables map[string]*Table
	loose  Table // the blocks outside of tables, for Check
}

// run carries out a command and says what came of it; a panic is an outcome.
func (s *script) run(line string) (result string) {
	defer func() {
		if r := recover(); r != nil {
			result = fmt.Sprint("panic: ", r)
		}
	}()
	var command, name, other string
	var n, m int
	fields := strings.Fields(line)
	command = fields[0]
	scan := func(targets ...any) {
		if k, err := fmt.Sscan(strings.Join(fields[1:], " "), targets...); err != nil || k != len(fields)-1 {
			panic(fmt.Sprintf("script: arguments of %q: %v", line, err))
		}
	}
	switch command {
	case "pool":
		scan(&n, &m)
		pool, err := NewPool(n, m)
		if err != nil {
			return err.Error()
		}
		*s = script{pool: pool, tables: map[string]*Table{}}
	case "grow":
		scan(&name, &n)
		return fmt.Sprintf("%v\n%s", s.table(name).Grow(s.pool, n), s.state())
	case "need":
		scan(&name, &n)
		return fmt.Sprint(s.table(name).Need(n, s.pool.BlockSize()))
	case "slot":
		scan(&name, &n)
		return fmt.Sprint(s.table(name).Slot(n))
	case "release":
		scan(&name)
		s.table(name).Release(s.pool)
	case "share":
		scan(&name, &other)
		for _, b := range s.table(name).Blocks() {
			s.pool.share(b)
			s.table(other).blocks = append(s.table(other).blocks, b)
		}
	case "alloc":
		block, ok := s.pool.Alloc()
		if ok {
			s.loose.blocks = append(s.loose.blocks, block)
		}
		return fmt.Sprintf("%d %v\n%s", block, ok, s.state())
	case "free":
		scan(&n)
		s.pool.Free(int32(n))
		if i := slices.Index(s.loose.blocks, int32(n)); i >= 0 {
			s.loose.blocks = slices.Delete(s.loose.blocks, i, i+1)
		}
	default:
		panic(fmt.Sprintf("script: no command %q", command))
	}
	return s.state()
}

func (s *script) table(name string) *Table {
	if s.tables[name] == nil {
		s.tables[name] = new(Table)
	}
	return s.tables[name]
}

func (s *script) state() string {
	var b strings.Builder
	names := make([]string, 0, len(s.tables))
	for name := range s.tables {
		names = append(names, name)
	}
	slices.Sort(names)
	all := []*Table{&s.loose}
	for _, name := range names {
		fmt.Fprintf(&b, "%s %v\n", name, s.tables[name].Blocks())
		all = append(all, s.tables[name])
	}
	fmt.Fprintf(&b, "free %d of %d, usage %.2f", s.pool.NumFree(), s.pool.NumBlocks(), s.pool.Usage())
	if err := s.pool.Check(all...); err != nil {
		fmt.Fprintf(&b, "\n%v", err)
	}
	return b.String()
}
