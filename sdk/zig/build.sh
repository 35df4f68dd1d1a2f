#!/bin/sh
# Builds a plugin: build.sh plugin.zig plugin.wasm
# The same sources give the same bytes with the same Zig, from any folder:
#   python3 -m pip install ziglang==0.17.1
# ZIG names another command for it. Ends with 3 if it is not there.
set -eu
wanted=0.17.1
zig=${ZIG:-python3 -m ziglang}
found=$($zig version 2>/dev/null) || found=none
if [ "$found" != "$wanted" ]; then
	echo "zig: $wanted is wanted, found $found; python3 -m pip install ziglang==$wanted, or set ZIG" >&2
	exit 3
fi
sdk=$(cd "$(dirname "$0")" && pwd)
# The stack is 1 MiB unless it is said, and every instance has one.
# ReleaseSafe: an addition that overflows is a trap and not a wrong price.
$zig build-exe -target wasm32-freestanding -fno-entry -rdynamic -fstrip -OReleaseSafe --stack 16384 \
	--dep wasmeter "-Mroot=$1" "-Mwasmeter=$sdk/wasmeter.zig" "-femit-bin=$2"
