#!/bin/sh
# Runs the AVX-VNNI and AVX-512 VNNI kernels on the processor that the Bochs emulator
# implements (its Sapphire Rapids), for machines that have no such instructions. Needs Go,
# Python 3 and a C compiler; takes a minute.
set -eu

package=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet bochscpu-python==0.4.0
BOCHSCPU=$(echo "$work"/venv/lib/python3*/site-packages/bochscpu/_bochscpu.*.so)
export BOCHSCPU
cc -shared -fPIC -o "$work/emulate.so" "$package/_gen/emulate/model.c" -ldl

cd "$package"
CGO_ENABLED=0 go test -c -o "$work/cpu.test" .
WASMETER_CPU_VECTORS="$work/vectors.json" "$work/cpu.test" -test.run '^TestWriteVectors$'
LD_PRELOAD="$work/emulate.so" "$work/venv/bin/python" _gen/emulate/call.py "$work/cpu.test" "$work/vectors.json"
