#!/bin/sh
# Builds a plugin: build.sh plugin.rs plugin.wasm
# The same sources give the same bytes with the same compiler, from any folder:
#   apt-get install rustc libstd-rust-dev-wasm32 lld-14    (Debian 12: Rust 1.63)
# RUSTC names another compiler, WASM_LD another linker. Debian's is called by its
# full path, since one from rustup may stand before it that has no wasm32.
# Ends with 3 if they are not there.
set -eu
wanted="rustc 1.63.0"
rustc=${RUSTC:-/usr/bin/rustc}
linker=${WASM_LD:-wasm-ld-14}
found=$($rustc --version 2>/dev/null) || found=none
case $found in
"$wanted"*) ;;
*)
	echo "rust: $wanted is wanted, found $found; apt-get install rustc libstd-rust-dev-wasm32 lld-14, or set RUSTC" >&2
	exit 3
	;;
esac
if ! command -v "$linker" >/dev/null || [ ! -d "$($rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown/lib" ]; then
	echo "rust: $linker or the library for wasm32 is missing; apt-get install libstd-rust-dev-wasm32 lld-14" >&2
	exit 3
fi
sdk=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$(dirname "$1")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Overflow checks stay: an addition that overflows is a trap and not a wrong
# price. Paths are left out, so that the folder is not in the module.
compile() {
	CARGO_PKG_VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' "$sdk/Cargo.toml") \
		$rustc --edition 2021 --target wasm32-unknown-unknown -C opt-level=s -C panic=abort -C overflow-checks=on \
		-C codegen-units=1 -C embed-bitcode=yes --remap-path-prefix "$sdk=wasmeter" --remap-path-prefix "$source=plugin" "$@"
}
compile --crate-name wasmeter --crate-type rlib "$sdk/src/lib.rs" -o "$work/libwasmeter.rlib"
# The stack is 1 MiB unless it is said, and every instance has one.
compile --crate-name plugin --crate-type cdylib --extern "wasmeter=$work/libwasmeter.rlib" -C lto=fat \
	-C linker="$linker" -C linker-flavor=wasm-ld -C link-arg=-zstack-size=32768 -C link-arg=--strip-all \
	"$source/$(basename "$1")" -o "$2"
