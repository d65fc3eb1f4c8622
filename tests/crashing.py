"""Jobs that end in every way a job can, for the tests of the pool and of the build."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from nnpedia.errors import BuildFailure, SpecError
from nnpedia.record import Origin, Page, Problem, Reference, Run, Versions


def double(number: int) -> int:
    return 2 * number


def environment(name: str) -> str | None:
    return os.environ.get(name)


def started_with(build: int) -> list[bytes]:
    """What this process and those above it, up to the build's, were started with, as /proc shows it."""
    found, process = [], os.getpid()
    while process not in (0, 1, build):
        found.append(Path(f"/proc/{process}/environ").read_bytes())
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def vanish() -> None:
    os._exit(7)


def segfault() -> None:
    import ctypes

    ctypes.string_at(0)


def fail() -> None:
    raise ValueError("first line\nsecond line")


def bad_input() -> None:
    raise SpecError("unknown key", where="family.yml:3")


def broken_fact() -> None:
    raise BuildFailure("the law does not hold", where="family.yml:9")


def hang() -> None:
    while True:
        time.sleep(0.05)


def hang_with_child(pidfile: str) -> None:
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pidfile).write_text(f"{os.getpid()} {child.pid}")
    hang()


def swallow() -> None:
    hoard = []
    for _ in range(40):
        hoard.append(b"x" * 2**26)
        time.sleep(0.05)
    hang()


def unpicklable() -> object:
    return lambda: None


def loud() -> None:
    print("a word before the end", flush=True)
    os._exit(3)


def sample(folder: str, home: str, family: str, kind: str, name: str) -> str:
    """A unit's record, as small as it can be; ends instead as the variable ENDS says for the family."""
    end = json.loads(os.environ.get("ENDS", "{}")).get(family)
    if end == "wrong":
        problems = [Problem(where=f"{Path(folder).name}/{family}/family.yml:3", what="the law is broken")]
    elif end is not None:
        globals()[end]()
    else:
        problems = []
    versions = Versions(nnpedia="0", python="3", torch="2", transformers="5", nnsight="0")
    if kind == "page":
        return Page(file=name, versions=versions, snippets=[]).model_dump_json()
    common: dict[str, Any] = {
        "family": family,
        "versions": versions,
        "origin": Origin(name=name, id=name, source="meta", detail="", dtype="float32", config_origin="defaults"),
        "architecture": "X",
        "sizes": {},
        "parameters": 0,
        "config": [],
        "printout": os.environ.get("SAYS", ""),
        "kinds": [],
        "root": [],
        "values": [],
        "problems": problems,
    }
    if kind == "reference":
        return Reference(**common).model_dump_json()
    return Run(**common, prompt="", loads=[], laws=[], snippets=[]).model_dump_json()


def slow_sample(folder: str, home: str, family: str, kind: str, name: str) -> str:
    """As `sample`, leaving a line in the file that the variable SEEN names."""
    with Path(os.environ["SEEN"]).open("a") as file:
        file.write(f"{family} {kind} {name}\n")
    time.sleep(0.5)
    return sample(folder, home, family, kind, name)


def vanish_with(*_: str) -> None:
    vanish()


def where(folder: str, home: str, family: str, kind: str, name: str) -> str:
    """As `sample`, with the name of the cache folder it was made for where a printout would be."""
    record = json.loads(sample(folder, home, family, kind, name))
    return json.dumps(record | ({} if kind == "page" else {"printout": Path(home).name}), separators=(",", ":"))


def span(seconds: float) -> tuple[float, float]:
    """When this began and when it ended, on the machine's clock."""
    start = time.monotonic()
    time.sleep(seconds)
    return start, time.monotonic()
