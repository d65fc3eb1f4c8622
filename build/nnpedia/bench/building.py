"""The build's bench: cold builds by families and workers, a build with nothing to do, and one edited notes file,
built and served.

Everything happens in a copy of the checkout with a cache folder of its own, whose checkpoints are
links to those that are there; so nothing here is measured on a half-warm cache, and nothing is lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnpedia.family import family_folders

COPIED = ("build", "families", "templates", "site", "mkdocs.yml", "README.md", "CHANGELOG.md", "pyproject.toml")
PARTS = ("edits", "serve", "cold")
Run = dict[str, Any]


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


def cold(copy: Path, families: Sequence[str], workers: int) -> Run:
    """A build of these families with checkpoints but no records."""
    shutil.rmtree(copy / ".nnpedia" / "records", ignore_errors=True)
    seconds, said = nnpedia(copy, "build", *families, "--no-site", "--json", "--workers", str(workers))
    units = [unit for unit in json.loads(said) if unit.get("family") in families]
    peaks = {str(unit["family"]): int(unit.get("peak_memory", 0)) for unit in units}
    for unit in units:
        peaks[str(unit["family"])] = max(peaks[str(unit["family"])], int(unit.get("peak_memory", 0)))
    largest = max(peaks, key=lambda name: peaks[name], default="")
    return {
        "families": len(families), "workers": workers, "seconds": round(seconds, 2), "units": len(units),
        "peak_memory": peaks.get(largest, 0), "peak_of": largest,
    }  # fmt: skip


def edits(copy: Path, family: str = "llama") -> dict[str, float]:
    """Seconds to an up-to-date site: from records alone, with nothing changed, and after one edit of notes.md."""
    nnpedia(copy, "build", "--no-site")
    rendered, _ = nnpedia(copy, "build", "--site")
    idle, _ = nnpedia(copy, "build", "--site")
    notes = copy / "families" / family / "notes.md"
    with edited(notes, "One sentence more."):
        again, _ = nnpedia(copy, "build", "--site")
    return {"rendered": round(rendered, 2), "nothing_changed": round(idle, 2), "notes_edited": round(again, 2)}


@contextmanager
def edited(notes: Path, sentence: str) -> Iterator[None]:
    """A paragraph more at the end of a file, for as long as this lasts."""
    before = notes.read_text(encoding="utf-8")
    notes.write_text(f"{before.rstrip()}\n\n{sentence}\n", encoding="utf-8")
    try:
        yield
    finally:
        notes.write_text(before, encoding="utf-8")


def served(copy: Path, family: str = "llama", limit: float = 240) -> float:
    """Seconds from an edit of notes.md until the server of `make serve` shows it; raises `RuntimeError`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(copy / "build"), "NNPEDIA_HOME": str(copy / ".nnpedia")}
    command = [sys.executable, "-m", "mkdocs", "serve", "--dirty", "--no-strict", "--dev-addr", f"127.0.0.1:{port}"]
    page = f"http://127.0.0.1:{port}/families/{family}/"
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(command, cwd=copy, env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            waited(page, "<html", limit, server)
            sentence = f"One sentence more, of {time.time_ns()}."
            with edited(copy / "families" / family / "notes.md", sentence):
                return round(waited(page, sentence, limit, server), 2)
        except TimeoutError as error:
            said.seek(0)
            raise RuntimeError(f"the server: {error}; it said {said.read()[-300:].strip()}") from None
        finally:
            server.terminate()
            server.wait()


def waited(page: str, text: str, limit: float, server: subprocess.Popen[Any]) -> float:
    """Seconds until a page has a text; raises `TimeoutError`, also when the server has ended."""
    started = time.perf_counter()
    while (seconds := time.perf_counter() - started) < limit and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(page, timeout=limit) as answer:
            if text in answer.read().decode("utf-8"):
                return time.perf_counter() - started
        time.sleep(0.05)
    raise TimeoutError(f"{page} did not show {text!r} within {seconds:.0f} s")


def counts_of(there: int, asked: Sequence[int]) -> list[int]:
    """How many families to build cold: what was asked for and is there; by default powers of two, and all."""
    powers = [2**power for power in range(there.bit_length())]
    return sorted({count for count in asked or [*powers, there] if 0 < count <= there})


def merged(before: Sequence[Run], run: Run) -> list[Run]:
    """The runs with one more, which stands for an earlier one of as many families and workers."""
    same = ("families", "workers")
    kept = [each for each in before if any(each[key] != run[key] for key in same)]
    return sorted([*kept, run], key=lambda each: (each["workers"], each["families"]))


def measure(
    root: Path, home: Path, counts: Sequence[int], workers: Sequence[int], parts: Collection[str] = PARTS,
    before: Mapping[str, Any] | None = None, keep: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:  # fmt: skip
    """What `parts` name, laid over what an earlier run found; `keep` gets all of it after each measurement."""
    names = list(family_folders(root / "families"))
    found: dict[str, Any] = {**(before or {}), "there": len(names)}
    with copy_of(root, home) as copy:
        if "edits" in parts:
            found["edits"] = edits(copy)
            keep(found)
        if "serve" in parts:
            found["served"] = served(copy)
            keep(found)
        for each in workers if "cold" in parts else ():
            for count in counts_of(len(names), counts):
                found["cold"] = merged(found.get("cold", []), cold(copy, names[:count], each))
                keep(found)
    return found
