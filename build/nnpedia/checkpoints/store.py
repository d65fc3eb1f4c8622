"""The cache of checkpoints: folders built once, whole or not at all, and checked when they are used.

A folder carries a `manifest.json` with the size and hash of each of its files. Sizes are looked at
on every use; a file whose modification time moved is hashed again. What does not match is built anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from nnpedia import cache
from nnpedia.errors import CheckpointError

MANIFEST = "manifest.json"


def key(**inputs: Any) -> str:
    """A short name for a set of inputs: the same inputs give the same key, any other gives another."""
    text = json.dumps(inputs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def code(*modules: str) -> str:
    """A hash of modules of this package's folder, so that a change of code makes a new folder."""
    here = Path(__file__).parent
    return hashlib.sha256(b"".join((here / f"{name}.py").read_bytes() for name in modules)).hexdigest()


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def kept(name: str, build: Callable[[Path], Mapping[str, Any]]) -> Path:
    """The folder `checkpoints/<name>` of the cache, filled by `build(folder)` when it is not there yet.

    `build` fills an empty folder and returns what the manifest should say of its sources. Others who
    want the same folder meanwhile wait for it. Nothing is left behind when `build` raises. Raises
    `CheckpointError` when the cache cannot be written.
    """
    root = cache.home() / "checkpoints"
    folder = root / name
    if is_sound(folder):
        return folder
    try:
        return _built(root, name, build)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {name} cannot be written ({error.strerror or error}); set NNPEDIA_HOME to a folder that"
            " can, and that has room for it",
            where=str(root),
        ) from None


def _built(root: Path, name: str, build: Callable[[Path], Mapping[str, Any]]) -> Path:
    """The folder, built while others who want it wait."""
    folder = root / name
    root.mkdir(parents=True, exist_ok=True)
    partial = root / f".{name}.partial"
    with FileLock(root / f".{name}.lock"):
        if is_sound(folder):  # someone else built it while we waited
            return folder
        for stale in (folder, partial):
            if stale.exists():
                shutil.rmtree(stale)
        try:
            partial.mkdir()
            write_manifest(partial, build(partial))
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def write_manifest(folder: Path, sources: Mapping[str, Any]) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "modified": path.stat().st_mtime_ns, "sha256": sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
    cache.write_atomically(folder / MANIFEST, json.dumps({"sources": sources, "files": files}, indent=1) + "\n")


def is_sound(folder: Path) -> bool:
    """Whether the folder holds exactly what its manifest says."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sound = all(_matches(folder / name, said) for name, said in manifest["files"].items())
        if sound:
            _settle(folder, manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return sound


def _matches(path: Path, said: dict[str, Any]) -> bool:
    now = path.stat()
    if now.st_size != said["size"]:
        return False
    return now.st_mtime_ns == said["modified"] or sha256(path) == said["sha256"]


def _settle(folder: Path, manifest: dict[str, Any]) -> None:
    """Remember the modification times of files just found to be right, as after a copy of the cache."""
    moved = False
    for name, said in manifest["files"].items():
        now = (folder / name).stat().st_mtime_ns
        moved |= now != said["modified"]
        said["modified"] = now
    if moved:
        with contextlib.suppress(OSError):  # a cache that can only be read is read all the same
            cache.write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
