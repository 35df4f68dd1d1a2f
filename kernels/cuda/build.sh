#!/bin/sh
# Builds kernels.fatbin from all.cu with nvcc 13.0, which comes from PyPI into
# .toolchain/ (300 MB, once). The result depends on the sources and on the pinned
# versions alone, so a second build gives the same bytes.
#   kernels/cuda/build.sh            builds, and says what has changed in registers.txt;
#                                    refuses spills, and more registers than the table says
#   kernels/cuda/build.sh --accept   takes more registers into the table
#   kernels/cuda/build.sh --check    builds elsewhere and compares; without the compiler,
#                                    compares the sources' hashes only
#   kernels/cuda/build.sh --lint     compiles the sources with clang, whose front end
#                                    and warnings are others
# Exit status: 0 good, 1 not, 2 for what can't be done here, with the reason.
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3}

# nvcc asks for the others without a version, and not for cccl at all: all five are
# named. Code for each generation's first device, and PTX for devices to come.
packages="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85"
flags="-O3 -std=c++17 -fatbin -compress-mode=size -Xptxas -v
	--generate-code arch=compute_80,code=sm_80
	--generate-code arch=compute_89,code=sm_89
	--generate-code arch=compute_90,code=sm_90
	--generate-code arch=compute_100,code=sm_100
	--generate-code arch=compute_80,code=compute_80"

say() { echo "cuda-kernels: $*"; }
cannot() { say "$*" >&2; exit 2; }

# toolchain installs the compiler, unless these versions are there.
toolchain() {
	for package in $packages; do
		there=$(echo "$package" | sed 's/-/_/g; s/==/-/')
		[ -d ".toolchain/$there.dist-info" ] && continue
		say "installing nvcc into kernels/cuda/.toolchain"
		rm -rf .toolchain
		# shellcheck disable=SC2086
		"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target .toolchain $packages ||
			cannot "nvcc can't be installed: pip must be able to install $packages"
		break
	done
	nvcc=$PWD/.toolchain/nvidia/cu13/bin/nvcc
	"$nvcc" --version >/dev/null 2>&1 || cannot "$nvcc does not run here"
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
*)
	say "unknown: $1; see the head of kernels/cuda/build.sh" >&2
	exit 1
	;;
esac
