package toolchain

import (
	"context"
	"path/filepath"
)

// zigVersion is the one that the SDK is written in: the language changes between
// releases.
const zigVersion = "0.17.1"

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
	// The stack is 1 MiB unless it is said, and every instance has one.
	// ReleaseSafe: an addition that overflows is a trap and not a wrong price.
	return "zig " + zigVersion, run(ctx, work, nil, append(command,
		"build-exe", "-target", "wasm32-freestanding", "-fno-entry", "-rdynamic", "-fstrip", "-OReleaseSafe", "--stack", "16384",
		"--dep", "wasmeter", "-Mroot="+filepath.Join(p.Dir, p.Entry), "-Mwasmeter="+filepath.Join(sdk, "wasmeter.zig"), "-femit-bin="+out)...)
}
