"""`python -m nnpedia.bench`: measure, and keep the numbers where the site finds them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from nnpedia.bench import building, peers
from nnpedia.bench.results import load, path_of
from nnpedia.cache import checkout, home, write_atomically
from nnpedia.errors import NnpediaError
from nnpedia.versions import installed

CHECKPOINT = "llama:SmolLM2-135M-Instruct"
LENGTHS = (9, 144)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nnpedia.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help="library, peers, build; all three by default")
    parser.add_argument("--checkpoint", default=CHECKPOINT)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument(
        "--families", type=int, nargs="+", default=[],
        help="how many families a cold build has; powers of two, and all that are there",
    )  # fmt: skip
    parser.add_argument(
        "--build", choices=building.PARTS, nargs="+", default=building.PARTS,
        help="what of the build to measure; the rest stays as an earlier run found it",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    chosen = parser.parse_args()
    try:
        run(chosen, chosen.parts or ["library", "peers", "build"])
    except (NnpediaError, RuntimeError) as error:
        sys.exit(f"nnpedia: {error}")


def run(chosen: argparse.Namespace, parts: list[str]) -> None:
    path = path_of(home())
    found: dict[str, Any] = load(home()) or {}
    found["machine"] = machine()
    if "library" in parts:
        say("the library: every residual and every pattern, against a bare forward")
        found["library"] = library(chosen)
    if "peers" in parts:
        found["peers"] = {"repeats": chosen.repeats, **{peer.title: measured(peer, chosen) for peer in peers.PEERS}}
    if "build" in parts:
        root = checkout()
        if root is None:
            raise NnpediaError("the build is measured in a checkout (a folder with mkdocs.yml)")

        def keep(build: dict[str, Any]) -> None:
            """What is measured is kept at once: a run that is cut short goes on with the rest of it."""
            found["build"] = build
            write(path, found)
            say(f"  {told(build)}")

        say(f"the build: {', '.join(chosen.build)}")
        building.measure(root, home(), chosen.families, chosen.workers, chosen.build, found.get("build"), keep)
    write(path, found)
    say(f"written to {path}; `nnpedia build` makes the page of it")


def write(path: Path, found: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(found, indent=1, sort_keys=True) + "\n")


def told(build: dict[str, Any]) -> str:
    cold = ", ".join(f"{run['families']}/{run['workers']}: {run['seconds']} s" for run in build.get("cold", []))
    return f"edits {build.get('edits')}; served {build.get('served')}; cold by families/workers {cold or 'none'}"


def library(chosen: argparse.Namespace) -> Any:
    command = [sys.executable, "-m", "nnpedia.bench.library", "--checkpoint", chosen.checkpoint]
    done = subprocess.run([*command, "--repeats", str(chosen.repeats)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the library's bench: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measured(peer: peers.Peer, chosen: argparse.Namespace) -> dict[str, Any]:
    from nnpedia.checkpoints import resolve

    say(f"{peer.title}, in an environment of its own")
    try:
        return peers.measure(peer, home(), str(resolve(chosen.checkpoint, None)), chosen.repeats, LENGTHS)
    except peers.Absent as reason:
        say(f"skipped {peer.name}: {reason}")
        return {"skipped": str(reason)}


def machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {name: installed(name).partition("+")[0] for name in ("torch", "transformers", "nnsight")}
    return {"cores": cores, "python": platform.python_version(), "system": platform.machine(), **versions}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
