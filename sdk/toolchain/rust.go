package toolchain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	leastRust  = 63 // 1.63, as Debian 12 has it
	rustTarget = "wasm32-unknown-unknown"
)

var rustVersion = regexp.MustCompile(`^rustc 1\.(\d+)\.\d+`)

// rust is a compiler, with its linker where it has none of its own.
type rust struct {
	command []string
	version string
	linker  string
}

// findRust looks for a compiler that knows the target. Debian's is called by its
// full path, since one from rustup may stand before it that does not.
func findRust(ctx context.Context) (*rust, error) {
	missing := &Missing{
		Wanted: "Rust 1.63 or later with " + rustTarget, Setting: "RUSTC",
		Install: "apt-get install rustc libstd-rust-dev-wasm32 lld-14 (Debian 12), or rustup target add " + rustTarget,
	}
	for _, c := range candidates("RUSTC", "/usr/bin/rustc", "rustc") {
		command, version, found := look(ctx, [][]string{c}, "--version", func(v string) bool {
			parts := rustVersion.FindStringSubmatch(v)
			if parts == nil {
				return false
			}
			minor, err := strconv.Atoi(parts[1])
			return err == nil && minor >= leastRust
		})
		if command == nil {
			missing.Found = found
			continue
		}
		version = rustVersion.FindString(version)
		root, err := exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], "--print", "sysroot")...).Output()
		if err != nil {
			return nil, fmt.Errorf("ask %s for its folder: %w", c[0], err)
		}
		libraries := filepath.Join(strings.TrimSpace(string(root)), "lib", "rustlib")
		if _, err := os.Stat(filepath.Join(libraries, rustTarget, "lib")); err != nil {
			missing.Found = version + " without its library for " + rustTarget
			continue
		}
		linker, linked := rustLinker(libraries)
		if !linked {
			missing.Found = version + " without a linker"
			continue
		}
		return &rust{command, version, linker}, nil
	}
	return nil, missing
}

// rustLinker gives the linker to name, "" where the compiler brings its own.
func rustLinker(libraries string) (linker string, found bool) {
	if named := os.Getenv("WASM_LD"); named != "" {
		return named, true
	}
	if own, err := filepath.Glob(filepath.Join(libraries, "*", "bin", "rust-lld*")); err == nil && len(own) > 0 {
		return "", true
	}
	for _, name := range []string{"wasm-ld-14", "wasm-ld"} {
		if _, err := exec.LookPath(name); err == nil {
			return name, true
		}
	}
	return "", false
}

func (p *Project) buildRust(ctx context.Context, work, out string) (string, error) {
	compiler, err := findRust(ctx)
	if err != nil {
		return "", err
	}
	sdk, err := p.sdk(work)
	if err != nil {
		return "", err
	}
	// Overflow checks stay: an addition that overflows is a trap and not a wrong
	// price. Paths are left out, so that the folder is not in the module.
	flags := append(compiler.command[:len(compiler.command):len(compiler.command)],
		"--edition", "2021", "--target", rustTarget, "-C", "opt-level=s", "-C", "panic=abort", "-C", "overflow-checks=on",
		"-C", "codegen-units=1", "-C", "embed-bitcode=yes", "--remap-path-prefix", sdk+"=wasmeter", "--remap-path-prefix", p.Dir+"=plugin")
	flags = flags[:len(flags):len(flags)]
	version, err := cargoVersion(filepath.Join(sdk, "Cargo.toml"))
	if err != nil {
		return "", err
	}
	library := filepath.Join(work, "libwasmeter.rlib")
	if err := run(ctx, work, []string{"CARGO_PKG_VERSION=" + version}, append(flags,
		"--crate-name", "wasmeter", "--crate-type", "rlib", filepath.Join(sdk, "src", "lib.rs"), "-o", library)...); err != nil {
		return "", err
	}
	if compiler.linker != "" {
		flags = append(flags, "-C", "linker="+compiler.linker, "-C", "linker-flavor=wasm-ld")
	}
	// The stack is 1 MiB unless it is said, and every instance has one.
	return compiler.version, run(ctx, work, nil, append(flags,
		"--crate-name", "plugin", "--crate-type", "cdylib", "--extern", "wasmeter="+library, "-C", "lto=fat",
		"-C", "link-arg=-zstack-size=32768", "-C", "link-arg=--strip-all", filepath.Join(p.Dir, p.Entry), "-o", out)...)
}

// cargoVersion reads the version of a crate.
func cargoVersion(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), `version = "`); found {
			return strings.TrimSuffix(version, `"`), nil
		}
	}
	return "", fmt.Errorf("%s: no version", file)
}
