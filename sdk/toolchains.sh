#!/bin/sh
# Installs the compilers that plugins in Zig, C, AssemblyScript and Rust are built
# with, those that are not there yet, where `wasmeter plugin build` finds them:
#   sdk/toolchains.sh        (Rust needs Debian 12 and root; the others need neither)
# What can't be installed is said and left out, and it ends with 0: the tests that
# need a compiler skip without it. Go is not installed here.
set -u

case $(uname) in
Darwin) cache=$HOME/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
folder=$cache/wasmeter-toolchains
mkdir -p "$folder" || exit 1

# install NAME PROBE COMMAND… runs the command unless the probe succeeds already.
install() {
	name=$1 probe=$2
	shift 2
	if sh -c "$probe" >/dev/null 2>&1; then
		echo "toolchains: $name is there"
	elif said=$("$@" 2>&1) && sh -c "$probe" >/dev/null 2>&1; then
		echo "toolchains: $name installed"
	else
		echo "toolchains: $name can't be installed, its tests skip: $* said: $(echo "$said" | grep -v 'complete log' | tail -n 2 | tr '\n' ' ')" >&2
	fi
}

debian_rust() {
	[ "$(id -u)" = 0 ] || { echo "apt-get needs root"; return 1; }
	apt-get update -qq && apt-get install -y -qq --no-install-recommends rustc libstd-rust-dev-wasm32 lld-14
}

zig=$folder/zig-0.17.1
asc=$folder/assemblyscript-0.28.20
install "zig 0.17.1" "'$zig/ziglang/zig' version" \
	python3 -m pip install --quiet --disable-pip-version-check --target "$zig" ziglang==0.17.1
install "assemblyscript 0.28.20" "'$asc/node_modules/.bin/asc' --version" \
	npm install --loglevel=error --no-fund --no-audit --prefix "$asc" assemblyscript@0.28.20
install "rust with wasm32" "ls \$(/usr/bin/rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown/lib && command -v wasm-ld-14" debian_rust
