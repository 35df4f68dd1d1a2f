package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childWord makes the test's own binary a compiler, as the server's is.
const childWord = "compile-plugin-in-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		if err := CompileInChild(context.Background(), os.Args[2:], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// compilingHost compiles in children.
func compilingHost(t *testing.T, dir string) *bench {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{}
	b.Host, err = NewHost(context.Background(), Options{
		CacheDir: dir, CompileCommand: []string{program, childWord}, Logger: slog.New(slog.NewTextHandler(&b.logged, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func TestCompileInChild(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	b := compilingHost(t, dir)
	g := goodGuest(`{"fields":{"x_test":1}}`)
	got, err := shape(t, b.mustLoad(t, g))
	if want := `"x_test":1`; got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	marks, err := filepath.Glob(filepath.Join(dir, "within-limits-*"))
	if len(marks) != 1 || err != nil {
		t.Fatalf("%d marks in the cache, %v; want one", len(marks), err)
	}
	// A second host takes what is there: its command would fail.
	again := compilingHost(t, dir)
	again.compiler.command = []string{"/nonexistent"}
	if _, err := shape(t, again.mustLoad(t, g)); err != nil {
		t.Error(err)
	}
	if strings.Contains(b.logged.String()+again.logged.String(), "without limits") {
		t.Errorf("the log has %q", b.logged.String())
	}
}

func TestCompileFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		wasm  []byte
		limit func(*compiler)
		want  string
	}{
		{"invalid code", goodGuest("").with(exportShape, opI32(0)).assemble(), func(*compiler) {}, `plugin "test": compile: invalid function[3]`},
		{"no such program", goodGuest("").assemble(), func(c *compiler) { c.command = []string{"/nonexistent"} }, "no such file"},
		{"too much time by the clock", slowToCompile(), func(c *compiler) { c.limits.wall = 200 * time.Millisecond }, "compile: stopped after 200ms"},
		{"too much CPU time", slowToCompile(), func(c *compiler) { c.limits.cpu = time.Second }, "more than 1s of CPU time"},
		{"too much memory", slowToCompile(), func(c *compiler) { c.limits.memory = 100 << 20 }, "more than 100 MiB of memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := compilingHost(t, filepath.Join(t.TempDir(), "cache"))
			c.limit(b.compiler)
			_, err := b.load(t, c.wasm)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestCompileWithoutFolder(t *testing.T) {
	b := newBench(t)
	b.mustLoad(t, goodGuest(""))
	if !strings.Contains(b.logged.String(), "compiled inside the server, without limits") {
		t.Errorf("the log has %q, want a warning", b.logged.String())
	}
}

// slowToCompile keeps every limit of a module and takes the compiler many
// seconds: in each of its functions many locals come from elsewhere wherever
// a block ends.
func slowToCompile() []byte {
	const locals, blocks, functions = 250, 550, 1000
	var body []byte
	for range blocks {
		body = append(body, 0x02, 0x40) // block
	}
	for i := range blocks {
		local := uint64(1 + i%locals)
		body = code(body, opI64(int64(i)), appendUnsigned([]byte{0x21}, local), []byte{0x20, 0, 0x0d, 0, 0x0b}) // br_if 0, end
	}
	// The locals are the function's parameters, which the guest assembler
	// declares without a group of their own.
	g := goodGuest("")
	for range functions {
		g.functions = append(g.functions, guestFunction{signature: signature{"i" + strings.Repeat("I", locals), ""}, body: body})
	}
	return g.assemble()
}
