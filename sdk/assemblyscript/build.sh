#!/bin/sh
# Builds a plugin: build.sh plugin.ts plugin.wasm
# The same sources give the same bytes with the same compiler, from any folder:
#   npm install assemblyscript@0.28.20
# ASC names another command for it. Ends with 3 if it is not there.
set -eu
wanted=0.28.20
asc=${ASC:-npx --no-install asc}
found=$($asc --version 2>/dev/null) || found=none
if [ "$found" != "Version $wanted" ]; then
	echo "assemblyscript: $wanted is wanted, found ${found#Version }; npm install assemblyscript@$wanted, or set ASC" >&2
	exit 3
fi
sdk=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
# A folder of packages with this one in it, and the plugin's own folder beside.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/packages"
ln -s "$sdk" "$work/packages/wasmeter"
ln -s "$(cd "$(dirname "$1")" && pwd)" "$work/plugin"
# The host refuses a start function and calls _initialize instead. A failed
# assertion is logged by the SDK's own abort.
$asc "plugin/$(basename "$1")" --baseDir "$work" --path "$work/packages" --outFile "$out" \
	-O --exportStart _initialize --use abort=~lib/wasmeter/stderr/abort
