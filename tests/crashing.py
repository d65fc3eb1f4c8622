"""Jobs that end in every way a job can, for the tests of the pool and of the build."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from nnpedia.errors import BuildFailure, SpecError


def double(number: int) -> int:
    return 2 * number


def environment(name: str) -> str | None:
    return os.environ.get(name)


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
    for _ in range(200):
        hoard.append(b"x" * 2**23)
        time.sleep(0.02)
    hang()


def unpicklable() -> object:
    return lambda: None


def loud() -> None:
    print("a word before the end", flush=True)
    os._exit(3)
