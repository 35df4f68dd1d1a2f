#!/bin/sh
# Tests all that is behind the tag cuda, without a GPU: vet and build, the packages on
# the emulated driver and on its checked build, the kernels' image and its sources.
# A part whose tool is missing is left out with the reason; the others run.
set -u
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
packages="./kernels/cuda/... ./engine/backend/cuda/..."
failed=
left_out=

start=$(date +%s)
step() { echo "== cuda-test: $* ($(($(date +%s) - start))s)"; }
fail() { echo "cuda-test: $*" >&2; failed="$failed; $*"; }
skip() { echo "cuda-test: left out: $*" >&2; left_out="$left_out; $*"; }

finish() {
	[ -z "$left_out" ] || echo "cuda-test: left out: ${left_out#; }"
	[ -z "$failed" ] || { echo "cuda-test: failed: ${failed#; }" >&2; exit 1; }
	echo "cuda-test: good ($(($(date +%s) - start))s)"
	exit 0
}

step "the image of kernels"
kernels/cuda/build.sh --check
case $? in
0) ;;
2) skip "building the kernels again and comparing, as nvcc can't be had" ;;
*) fail "kernels.fatbin" ;;
esac
if command -v clang-19 >/dev/null; then
	kernels/cuda/build.sh --lint
	case $? in
	0) ;;
	2) skip "compiling the kernels with clang-19, as what it needs can't be had" ;;
	*) fail "kernels under clang-19" ;;
	esac
else
	skip "compiling the kernels with clang-19, as it is not installed"
fi

step "header, vet, build"
"$PYTHON" kernels/cuda/headers.py || { skip "everything in Go, as there is no cuda.h"; finish; }
command -v "$(go env CC)" >/dev/null || { skip "everything in Go, as there is no C compiler"; finish; }
export CGO_ENABLED=1
export CGO_CFLAGS="-O2 -I$PWD/kernels/cuda/include"
# shellcheck disable=SC2086
go vet -tags cuda $packages ./cmd/wasmeter || fail "go vet"
mkdir -p bin
go build -tags cuda -o bin/wasmeter-cuda ./cmd/wasmeter || fail "go build"
# The program with CUDA in it starts where there is no driver.
bin/wasmeter-cuda version >/dev/null || fail "starting the program"

step "what is declared of cuBLASLt"
# The rest of CUDA's headers come with the compiler of the kernels.
rest=kernels/cuda/.toolchain/nvidia/cu13/include
if [ -f kernels/cuda/include/cublas/cublasLt.h ] && [ -f $rest/driver_types.h ]; then
	"$(go env CC)" -std=c11 -Wall -Wextra -Werror -fsyntax-only -Ikernels/cuda/include/cublas -I$rest kernels/cuda/cublaslt/compare/compare.c ||
		fail "kernels/cuda/cublaslt/api.h is not what cublasLt.h says"
else
	skip "comparing kernels/cuda/cublaslt/api.h with cublasLt.h, for which kernels/cuda/headers.py cublaslt fetches 600 MB once"
fi

step "the emulated driver"
if ! command -v g++ >/dev/null; then
	skip "tests on the emulated driver, as there is no g++"
	finish
fi
if [ "$(uname -m)" != x86_64 ] || ! grep -q -m1 '\<avx2\>' /proc/cpuinfo; then
	skip "tests on the emulated driver, which needs an x86-64 machine with AVX2"
	finish
fi
MAKEFLAGS=-j$(nproc) kernels/cuda/emu/build.sh || { fail "building the emulated driver"; finish; }
# tests LIBRARY [FLAG…] runs the packages' tests on that build of the emulated driver.
tests() {
	library=$1
	shift
	step "tests on $library"
	# shellcheck disable=SC2086
	WASMETER_CUDA_DRIVER=$PWD/kernels/cuda/emu/build/$library go test -tags cuda -count=1 -timeout 10m "$@" $packages || fail "tests on $library"
}
tests libcuda_emu.so
# What is timed is checked by TestCases, in shapes that show more. The blocks run the other way round, since their order
# must not matter.
CUDA_EMU=backwards=1 tests libcuda_emu_checked.so -skip '^TestSpeeds$'
step "mutants: each fault that is put into the kernels must be found"
WASMETER_MUTANTS=1 go test -tags cuda -count=1 -timeout 20m -run TestMutants ./kernels/cuda/emu || fail "mutants"
finish
