"""Fetch cuda.h, which building with -tags cuda needs, from PyPI.

    python3 headers.py

It comes from NVIDIA's package for CUDA 12.8: gorgonia.org/cu does not compile
with the header of CUDA 13, whose driver still has all that the older one
declares. Of the package only this file is kept, in include/, after it was
checked. Needs Python 3 with pip and nothing else.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "nvidia-cuda-runtime-cu12==12.8.90"
MEMBER = "nvidia/cuda_runtime/include/cuda.h"
SHA256 = "4568cc9e7a321e47707cd6403980f21ac2e2e55170500d0e0a3f54feb03a9acb"
TARGET = pathlib.Path(__file__).resolve().parent / "include" / "cuda.h"


def is_right(content):
    return hashlib.sha256(content).hexdigest() == SHA256


def main():
    if TARGET.is_file() and is_right(TARGET.read_bytes()):
        return
    TARGET.parent.mkdir(exist_ok=True)
    # Beside its place, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=TARGET.parent, prefix=".fetch-") as folder:
        # The header is the same for every platform; the package for x86-64 has it.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--dest", folder, PACKAGE]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"cuda-headers: pip could not download {PACKAGE}. Is there a network, or a mirror in PIP_INDEX_URL?\n"
                     f"              The cuda.h of any CUDA 12 toolkit will do: set CGO_CFLAGS=-I<its folder>")
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            content = wheel.read(MEMBER)
        if not is_right(content):
            sys.exit(f"cuda-headers: {MEMBER} of {PACKAGE} is not the expected file (sha256 {SHA256}); nothing was kept")
        whole = pathlib.Path(folder, "cuda.h")
        whole.write_bytes(content)
        os.replace(whole, TARGET)
    print(f"cuda-headers: {TARGET.relative_to(TARGET.parents[3])}, checked", flush=True)


main()
