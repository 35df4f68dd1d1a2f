#!/bin/sh
# Builds the emulated driver, plain and checked, and only what has changed: kernels/cuda/emu/build.sh [plain|checked]
# Needs g++ 12 or later with make, an x86-64 machine with AVX2, and kernels/cuda/include/cuda.h (make cuda-headers).
# OUT=folder builds into another one, and SRC=folder has the kernels from another one (the mutants do both).
set -e
cd "$(dirname "$0")"
if [ ! -f ../include/cuda.h ]; then
  echo "kernels/cuda/include/cuda.h is missing: run make cuda-headers" >&2
  exit 1
fi
mkdir -p "${OUT:=build}"
# Two builds at once would write the same files.
exec flock "$OUT/.lock" make --no-print-directory -s OUT="$OUT" SRC="${SRC:-..}" "${@:-all}"
