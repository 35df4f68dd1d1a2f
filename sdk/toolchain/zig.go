package toolchain

import (
	"context"
	"os"
	"path/filepath"
	"slices"
)

// zigVersion is the one that the SDK is written in: the language changes between
// releases.
const zigVersion = "0.17.1"

// zigFlags are those of every plugin. The stack is 1 MiB unless it is said, and every
// instance has one. ReleaseSafe: an addition that overflows is a trap and not a
// wrong price.
var zigFlags = []string{"build-exe", "-target", "wasm32-freestanding", "-fno-entry", "-rdynamic", "-fstrip", "-OReleaseSafe", "--stack", "16384"}

// zig finds the compiler.
func zig(ctx context.Context) ([]string, error) {
	command, _, found := look(ctx,
		candidates("ZIG", "zig", cached("zig-"+zigVersion, "ziglang", "zig"), "python3 -m ziglang"),
		"version", func(v string) bool { return v == zigVersion })
	if command == nil {
		return nil, &Missing{Wanted: "Zig " + zigVersion, Found: found, Install: "python3 -m pip install ziglang==" + zigVersion, Setting: "ZIG"}
	}
	return command, nil
}

func (p *Project) buildZig(ctx context.Context, work, out string) (string, error) {
	command, err := zig(ctx)
	if err != nil {
		return "", err
	}
	sdk, err := p.sdk(work)
	if err != nil {
		return "", err
	}
	return "zig " + zigVersion, run(ctx, work, nil, slices.Concat(command, zigFlags,
		[]string{"--dep", "wasmeter", "-Mroot=" + filepath.Join(p.Dir, p.Entry), "-Mwasmeter=" + filepath.Join(sdk, "wasmeter.zig"), "-femit-bin=" + out})...)
}

// buildC builds all C files of the folder. They are linked with the SDK for Zig,
// whose c.zig has what wasmeter.h declares.
func (p *Project) buildC(ctx context.Context, work, out string) (string, error) {
	command, err := zig(ctx)
	if err != nil {
		return "", err
	}
	sdk, err := p.sdk(work)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return "", err
	}
	// An addition of signed numbers that overflows is a trap, as elsewhere.
	flags := []string{"-fsanitize-c=trap", "-I", sdk, "-cflags", "-std=c11", "-Wall", "--"}
	for _, e := range entries {
		if !e.IsDir() && C.isSource(e.Name()) {
			flags = append(flags, filepath.Join(p.Dir, e.Name()))
		}
	}
	return "zig " + zigVersion, run(ctx, work, nil, slices.Concat(command, zigFlags, flags,
		[]string{"--dep", "wasmeter", "-Mroot=" + filepath.Join(sdk, "c.zig"), "-Mwasmeter=" + filepath.Join(sdk, "wasmeter.zig"), "-femit-bin=" + out})...)
}
