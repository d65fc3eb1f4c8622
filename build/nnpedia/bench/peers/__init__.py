"""The peers: other libraries that read the same values, each in a pinned environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"  # first and by itself: a resolver may take a build for an accelerator otherwise


@dataclass(frozen=True)
class Peer:
    """A library, what its environment holds, and the script that measures it."""

    name: str
    script: str
    requirements: tuple[str, ...]

    @property
    def title(self) -> str:
        return " with ".join(each.replace("==", " ").replace(".*", "") for each in self.requirements)


PEERS = (
    Peer("nnterp", "nnterp_bench.py", ("nnterp==1.3.0", "nnsight==0.7.*")),
    Peer("TransformerLens", "transformerlens_bench.py", ("transformer-lens==4.3.0",)),
)


class Absent(Exception):
    """A peer's environment cannot be made here, or its script does not run in it."""


def environment(peer: Peer, home: Path) -> Path:
    """The Python of a peer's environment, made when it is not there; raises `Absent`."""
    folder = home / "bench" / f"venv-{peer.script.removesuffix('_bench.py')}"
    python = folder / "bin" / "python"
    wanted = " ".join((TORCH, *peer.requirements))
    mark = folder / "nnpedia-installed"
    if mark.is_file() and mark.read_text() == wanted:
        return python
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, TORCH])
    _run([*pip, TORCH, *peer.requirements])
    mark.write_text(wanted)
    return python


def measure(peer: Peer, home: Path, folder: str, repeats: int, lengths: tuple[int, ...]) -> dict[str, Any]:
    """What the peer's script prints; raises `Absent`."""
    python = environment(peer, home)
    arguments = [str(python), str(HERE / peer.script), folder, str(repeats), *map(str, lengths)]
    said = _run(arguments, {"PYTHONPATH": str(HERE.parent), "HF_HUB_OFFLINE": "1"})
    line = next((line for line in said.splitlines() if line.startswith("BENCH ")), None)
    if line is None:
        raise Absent(f"{peer.name} printed no result")
    found: dict[str, Any] = json.loads(line.removeprefix("BENCH "))
    return found


def _run(command: list[str], more: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, env={**os.environ, **(more or {})}, capture_output=True, text=True, timeout=1800, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(str(error)) from None
    if done.returncode:
        says = done.stderr.strip().splitlines() or ["it ended without a word"]
        raise Absent(says[-1])
    return done.stdout
