#!/bin/sh
# Builds the plugins beside their sources. The result depends on the sources and
# on the compiler's version alone, so a second build gives the same bytes.
#   plugins/build.sh [NAME...]           builds into plugins/*/, all or those
#   plugins/build.sh --check [NAME...]   builds elsewhere and compares
set -eu
cd "$(dirname "$0")"

build() { # name, output file
	if [ -f "$1/$1.zig" ]; then
		go run ../cmd/wasmeter plugin build "$1/$1.zig" -o "$2" >/dev/null
		return
	fi
	GOOS=wasip1 GOARCH=wasm GOFLAGS= GOEXPERIMENT= GOWASM= GOAMD64= \
		go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags="-s -w" -o "$2" "./$1"
}

check=
if [ "${1-}" = --check ]; then
	check=yes
	shift
fi
if [ $# = 0 ]; then
	set -- */main.go
fi
for main; do
	name=${main%/main.go}
	if [ -z "$check" ]; then
		build "$name" "$name/$name.wasm"
		continue
	fi
	if [ -f "$name/$name.zig" ]; then
		continue # its own test compares, where there is a Zig
	fi
	wanted=$(sed -n 's/^toolchain //p' ../go.mod)
	found=$(go env GOVERSION)
	if [ "$wanted" != "$found" ]; then
		echo "plugins: $name.wasm was built with $wanted; not compared under $found"
		continue
	fi
	rebuilt=$(mktemp)
	trap 'rm -f "$rebuilt"' EXIT
	build "$name" "$rebuilt"
	if ! cmp -s "$rebuilt" "$name/$name.wasm"; then
		echo "plugins: $name/$name.wasm is not what its sources give; run plugins/build.sh" >&2
		exit 1
	fi
	rm -f "$rebuilt"
	echo "plugins: $name.wasm is what its sources give"
done
