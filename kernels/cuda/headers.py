"""Fetch NVIDIA's headers from PyPI.

    python3 headers.py            cuda.h, which building with -tags cuda needs
    python3 headers.py cublaslt   cublasLt.h, with which cublaslt/api.h is compared

cuda.h comes from the package for CUDA 12.8: gorgonia.org/cu does not compile
with the header of CUDA 13, whose driver still has all that the older one
declares. Of a package, which has 600 MB for cublasLt.h, only the headers are
kept, in include/, after they were checked. Needs Python 3 with pip and nothing
else.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

INCLUDE = pathlib.Path(__file__).resolve().parent / "include"
# For each: the package, and its members with their hashes and places.
HEADERS = {
    "cuda": ("nvidia-cuda-runtime-cu12==12.8.90", {
        "nvidia/cuda_runtime/include/cuda.h":
            ("cuda.h", "4568cc9e7a321e47707cd6403980f21ac2e2e55170500d0e0a3f54feb03a9acb"),
    }),
    "cublaslt": ("nvidia-cublas-cu12==12.8.4.1", {
        "nvidia/cublas/include/cublasLt.h":
            ("cublas/cublasLt.h", "a07f53474d47e4259f18f223264ebe2e383c7903aed20868ed336df378029b08"),
        "nvidia/cublas/include/cublas_api.h":
            ("cublas/cublas_api.h", "03826fbfd7a5be82480f0f117943fba819d2c44bddb2573e8215bfc9cabfa805"),
    }),
}


def is_right(content, sha256):
    return hashlib.sha256(content).hexdigest() == sha256


def there(place, sha256):
    path = INCLUDE / place
    return path.is_file() and is_right(path.read_bytes(), sha256)


def main():
    names = sys.argv[1:] or ["cuda"]
    if names not in [[name] for name in HEADERS]:
        sys.exit(f"headers.py: unknown: {' '.join(names)}; use one of {', '.join(HEADERS)}, or nothing for cuda")
    package, members = HEADERS[names[0]]
    if all(there(*member) for member in members.values()):
        return
    INCLUDE.mkdir(exist_ok=True)
    # Beside its place, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=INCLUDE, prefix=".fetch-") as folder:
        # The headers are the same for every platform; the package for x86-64 has them.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_27_x86_64",
                   "--dest", folder, package]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"cuda-headers: pip could not download {package}. Is there a network, or a mirror in PIP_INDEX_URL?\n"
                     f"              The cuda.h of any CUDA 12 toolkit will do: set CGO_CFLAGS=-I<its folder>")
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            for member, (place, sha256) in members.items():
                content = wheel.read(member)
                if not is_right(content, sha256):
                    sys.exit(f"cuda-headers: {member} of {package} is not the expected file (sha256 {sha256}); it was not kept")
                whole = pathlib.Path(folder, "whole")
                whole.write_bytes(content)
                (INCLUDE / place).parent.mkdir(exist_ok=True)
                os.replace(whole, INCLUDE / place)
                print(f"cuda-headers: {(INCLUDE / place).relative_to(INCLUDE.parents[2])}, checked", flush=True)


main()
