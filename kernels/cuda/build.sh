#!/bin/sh
# Builds kernels.fatbin from all.cu with nvcc 13.0, which comes from PyPI into
# .toolchain/ (300 MB, once). The result depends on the sources and on the pinned
# versions alone, so a second build gives the same bytes.
#   kernels/cuda/build.sh            builds, and says what has changed in registers.txt;
#                                    refuses spills, and more registers than the table says
#   kernels/cuda/build.sh --accept   takes more registers into the table
#   kernels/cuda/build.sh --check    builds elsewhere and compares; without the compiler,
#                                    compares the sources' hashes only
#   kernels/cuda/build.sh --lint     compiles the sources with clang-19 instead, as a second
#                                    opinion: another front end, and other warnings
# Exit status: 0 good, 1 not, 2 for what can't be done here, with the reason.
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3}

# nvcc asks for the others without a version, and not for cccl at all: all five are
# named. Code for four generations and, for devices to come, PTX: all of one run of
# the front end, as no source looks at __CUDA_ARCH__.
packages="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85"
flags="-O3 -std=c++17 -fatbin -compress-mode=size -Xptxas -v --threads 2
	--generate-code arch=compute_80,code=[sm_80,sm_89,sm_90,sm_100,compute_80]"

say() { echo "cuda-kernels: $*"; }
cannot() { say "$*" >&2; exit 2; }

# toolchain installs the compiler, unless these versions are there.
toolchain() {
	for package in $packages; do
		there=$(echo "$package" | sed 's/-/_/g; s/==/-/')
		[ -d ".toolchain/$there.dist-info" ] && continue
		say "installing nvcc into kernels/cuda/.toolchain"
		rm -rf .toolchain/nvidia .toolchain/*.dist-info
		# shellcheck disable=SC2086
		"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target .toolchain $packages ||
			cannot "nvcc can't be installed: pip must be able to install $packages"
		break
	done
	nvcc_folder=$PWD/.toolchain/nvidia/cu13/bin
	nvcc=$nvcc_folder/nvcc
	"$nvcc" --version >/dev/null 2>&1 || cannot "$nvcc does not run here"
}

# clang takes CUDA's headers up to 12.4. Their packages lie apart, and it wants one
# folder; the header of that name only has to be there.
clang_packages="nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-cccl-cu12==12.9.27"
clang_headers() {
	[ -d .toolchain/clang/bin ] && [ -f .toolchain/clang/include/curand_mtgp32_kernel.h ] && return
	parts=.toolchain/clang.parts
	rm -rf $parts .toolchain/clang
	# shellcheck disable=SC2086
	"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target $parts $clang_packages ||
		cannot "clang's headers can't be installed: pip must be able to install $clang_packages"
	mkdir -p .toolchain/clang/include .toolchain/clang/bin
	cp -r $parts/nvidia/cuda_nvcc/nvvm .toolchain/clang/
	cp -r $parts/nvidia/cuda_nvcc/include/. $parts/nvidia/cuda_runtime/include/. $parts/nvidia/cuda_cccl/include/nv .toolchain/clang/include/
	: >.toolchain/clang/include/curand_mtgp32_kernel.h
	rm -rf $parts
}

# compile FOLDER makes kernels.fatbin and registers.txt there.
compile() {
	# shellcheck disable=SC2086
	"$nvcc" $flags -o "$1/kernels.fatbin" all.cu 2>"$1/log" || { cat "$1/log" >&2; exit 1; }
	grep -E 'warning|error' "$1/log" >&2 && { say "nvcc has warnings; see above" >&2; exit 1; }
	awk '
		/Compiling entry function/ { split($0, q, "\047"); kernel = q[2]; arch = q[4]; next }
		/bytes stack frame/ { stack[kernel, arch] = $1; spills[kernel, arch] = $5 + $9; next }
		/Used [0-9]+ registers/ {
			if (kernel == "") next
			for (i = 1; i <= NF; i++) {
				if ($i == "Used") registers = $(i + 1)
				if ($i ~ /^smem/) shared = $(i - 2)
			}
			print kernel, arch, registers, shared + 0, stack[kernel, arch] + 0, spills[kernel, arch] + 0
			kernel = ""; shared = 0
		}' "$1/log" | LC_ALL=C sort -k1,1 -k2,2V >"$1/table"
	[ -s "$1/table" ] || { say "ptxas named no kernel:" >&2; cat "$1/log" >&2; exit 1; }
	{
		echo "# What each kernel takes, by ptxas: registers of a thread, bytes of static shared"
		echo "# memory of a block, of stack of a thread, and of spills. Made by build.sh."
		echo "# kernel arch registers shared stack spills"
		cat "$1/table"
	} >"$1/registers.txt"
}

# sources lists what kernels.fatbin is made of, and itself.
sources() { (cat "$1/kernels.fatbin" | sha256sum | sed 's/-$/kernels.fatbin/'; LC_ALL=C sha256sum *.cu *.cuh); }

# compare TABLE fails on spills, and on more registers or stack than registers.txt
# has for the same kernel.
compare() {
	[ -f registers.txt ] || return 0
	awk '
		/^#/ { next }
		FNR == NR { registers[$1, $2] = $3; stack[$1, $2] = $5; next }
		$6 > 0 { print "  " $1 " " $2 " spills " $6 " bytes"; bad = 1 }
		($1, $2) in registers && $3 > registers[$1, $2] { print "  " $1 " " $2 ": " registers[$1, $2] " registers have become " $3; bad = 1 }
		($1, $2) in stack && $5 > stack[$1, $2] { print "  " $1 " " $2 ": " stack[$1, $2] " bytes of stack have become " $5; bad = 1 }
		END { exit bad }' registers.txt "$1"
}

case ${1-} in
"" | --accept)
	toolchain
	made=$(mktemp -d)
	trap 'rm -rf "$made"' EXIT
	compile "$made"
	if awk '$6 > 0 { print "  " $1 " " $2 " spills " $6 " bytes"; bad = 1 } END { exit !bad }' "$made/table"; then
		say "registers are spilled to memory: make the kernel smaller, or its launch bounds wider" >&2
		exit 1
	fi
	if [ "${1-}" != --accept ] && ! compare "$made/table"; then
		say "kernels have grown: nothing is kept; look why, or take it with kernels/cuda/build.sh --accept" >&2
		exit 1
	fi
	cp "$made/kernels.fatbin" "$made/registers.txt" .
	sources . >sources.sha256
	say "kernels.fatbin, $(wc -c <kernels.fatbin) bytes, $(cut -d' ' -f1 "$made/table" | uniq | wc -l) kernels"
	;;
--check)
	for file in kernels.fatbin sources.sha256 registers.txt; do
		[ -f $file ] || { say "$file is missing; run make cuda-kernels" >&2; exit 1; }
	done
	if ! sources . | cmp -s - sources.sha256; then
		say "sources.sha256 is of other sources or another kernels.fatbin; run make cuda-kernels:" >&2
		sources . | diff sources.sha256 - | grep '^[<>]' >&2
		exit 1
	fi
	toolchain
	made=$(mktemp -d)
	trap 'rm -rf "$made"' EXIT
	compile "$made"
	for file in kernels.fatbin registers.txt; do
		cmp -s "$made/$file" $file || { say "$file is not what the sources give; run make cuda-kernels" >&2; exit 1; }
	done
	if awk '$6 > 0 { bad = 1 } END { exit !bad }' "$made/table"; then
		say "registers.txt has spills" >&2
		exit 1
	fi
	say "kernels.fatbin is what its sources give, without spills"
	;;
--lint)
	command -v clang-19 >/dev/null || cannot "clang-19 is not in PATH: install clang-19"
	toolchain
	clang_headers
	made=$(mktemp -d)
	trap 'rm -rf "$made"' EXIT
	# A loop that clang does not unroll is its optimizer's affair, not the source's.
	clang-19 -x cuda --cuda-device-only --cuda-path=.toolchain/clang --cuda-gpu-arch=sm_80 -O3 -std=c++17 \
		-Wall -Wextra -Werror -Wno-unknown-cuda-version -Wno-pass-failed -include clang.h -S -o "$made/kernels.ptx" all.cu
	# ptxas checks that what clang wrote is PTX, the inline parts among it.
	"$nvcc_folder/ptxas" -arch=sm_80 -o /dev/null "$made/kernels.ptx"
	say "clang-19 compiles the kernels without a warning, $(grep -c '\.entry ' "$made/kernels.ptx") of them"
	;;
*)
	say "unknown: $1; see the head of kernels/cuda/build.sh" >&2
	exit 1
	;;
esac
