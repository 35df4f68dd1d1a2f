package toolchain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Built is a module that was made.
type Built struct {
	File string
	Wasm []byte
	// Compiler is the compiler and its version.
	Compiler string
}

// Build compiles the plugin into file, "" for p.Module(). The file appears whole:
// a server that watches it never loads half a module. The error is a *Missing
// where there is no compiler.
func (p *Project) Build(ctx context.Context, file string) (*Built, error) {
	if file == "" {
		file = p.Module()
	}
	work, err := os.MkdirTemp("", "wasmeter-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work) // what is left of it does no harm
	made := filepath.Join(work, "plugin.wasm")
	compile := map[Language]func(context.Context, string, string) (string, error){
		Go: p.buildGo, AssemblyScript: p.buildAssemblyScript, Zig: p.buildZig, Rust: p.buildRust, C: p.buildC,
	}[p.Language]
	compiler, err := compile(ctx, work, made)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", filepath.Join(p.Dir, p.Entry), err)
	}
	wasm, err := os.ReadFile(made)
	if err != nil {
		return nil, err
	}
	return &Built{File: file, Wasm: wasm, Compiler: compiler}, replace(file, wasm)
}

// replace puts a whole file in another's place.
func replace(file string, content []byte) (err error) {
	next, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", file, err)
			_ = os.Remove(next.Name()) // the error that matters is err
		}
	}()
	if _, err = next.Write(content); err != nil {
		_ = next.Close()
		return err
	}
	if err = next.Chmod(0o644); err != nil {
		_ = next.Close()
		return err
	}
	if err = next.Close(); err != nil {
		return err
	}
	return os.Rename(next.Name(), file)
}
