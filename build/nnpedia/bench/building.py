"""The build's bench: cold builds by families and workers, a build with nothing to do, and one edited notes file.

Everything happens in a copy of the checkout with a cache folder of its own, whose checkpoints are
links to those that are there; so nothing here is measured on a half-warm cache, and nothing is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnpedia.family import family_folders

COPIED = ("build", "families", "templates", "site", "mkdocs.yml", "README.md", "CHANGELOG.md", "pyproject.toml")


@contextmanager
def copy_of(root: Path, home: Path) -> Iterator[Path]:
    """A checkout beside this one, with this one's checkpoints and records."""
    with tempfile.TemporaryDirectory(prefix="nnpedia-bench-") as folder:
        copy = Path(folder) / "checkout"
        copy.mkdir()
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (root / name).exists():
                shutil.copy2(root / name, copy / name)
        (copy / ".nnpedia").mkdir()
        (copy / ".nnpedia" / "checkpoints").symlink_to(home / "checkpoints")
        if (home / "records").is_dir():
            shutil.copytree(home / "records", copy / ".nnpedia" / "records")
        yield copy


def nnpedia(copy: Path, *arguments: str) -> tuple[float, str]:
    """Seconds that a command takes in the copy, and what it printed; raises `RuntimeError` when it fails."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "build"), "NNPEDIA_HOME": str(copy / ".nnpedia")}
    environment.pop("NNPEDIA_FAMILIES", None)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "nnpedia.cli", *arguments],
        cwd=copy, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"nnpedia {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return seconds, done.stdout


def cold(copy: Path, families: Sequence[str], workers: int) -> dict[str, Any]:
    """A build of these families with checkpoints but no records."""
    shutil.rmtree(copy / ".nnpedia" / "records", ignore_errors=True)
    seconds, said = nnpedia(copy, "build", *families, "--no-site", "--json", "--workers", str(workers))
    peaks = [int(unit.get("peak_memory", 0)) for unit in json.loads(said) if unit.get("family") in families]
    return {
        "families": len(families), "workers": workers, "seconds": round(seconds, 2),
        "peak_memory": max(peaks, default=0),
    }  # fmt: skip


def edits(copy: Path, family: str = "llama") -> dict[str, float]:
    """Seconds to an up-to-date site: from records alone, with nothing changed, and after one edit of notes.md."""
    nnpedia(copy, "build", "--no-site")
    rendered, _ = nnpedia(copy, "build", "--site")
    idle, _ = nnpedia(copy, "build", "--site")
    notes = copy / "families" / family / "notes.md"
    notes.write_text(notes.read_text(encoding="utf-8") + "\nOne sentence more.\n", encoding="utf-8")
    edited, _ = nnpedia(copy, "build", "--site")
    return {"rendered": round(rendered, 2), "nothing_changed": round(idle, 2), "notes_edited": round(edited, 2)}


def measure(root: Path, home: Path, counts: Sequence[int], workers: Sequence[int]) -> dict[str, Any]:
    """Cold builds of the first N families by workers, and the edits of a site that is there."""
    names = list(family_folders(root / "families"))
    with copy_of(root, home) as copy:
        edited = edits(copy)
        runs = [cold(copy, names[:count], each) for each in workers for count in counts if count <= len(names)]
    return {"edits": edited, "cold": runs}
