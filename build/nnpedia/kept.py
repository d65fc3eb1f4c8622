"""Kept: what an earlier build worked out from a text, so that a page that is as it was is not read again.

An answer is found by the digest of the text and of the code that makes it, so it is never that of
another text or of older code. A cache that cannot be read or written is a cache that is empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnpedia.cache import home, write_atomically


@dataclass
class Kept:
    """Answers as JSON data: those of the last build, and those asked for in this one, which the next one finds."""

    code: str = ""
    before: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)

    def turn(self) -> None:
        """One build is over and another begins, in a process that outlives it; there an answer can be anything."""
        self.before, self.asked = self.asked, {}

    def answer(self, text: str, work_out: Callable[[], Any]) -> Any:
        """What `work_out` says, which depends on `text` alone and is JSON data; asked only when it is not known."""
        key = _digest(f"{self.code}\0{text}".encode())
        if key not in self.asked:
            self.asked[key] = self.before[key] if key in self.before else work_out()
        return self.asked[key]


def digest_of(*parts: str | bytes) -> str:
    """One digest of several texts, which tells where each ends."""
    told = (part if isinstance(part, bytes) else part.encode(errors="surrogatepass") for part in parts)
    return _digest("".join(map(_digest, told)).encode())


@contextmanager
def kept(name: str, code: str, folder: Path | None = None, *, some: bool = False) -> Iterator[Kept]:
    """The answers kept under a name in a cache folder, worked out by what `code` stands for.

    What was not asked for is forgotten, unless only `some` of all there is was to be asked for.
    """
    path = (folder or home()) / "kept" / f"{name}.json"
    answers = Kept(_digest(code.encode()), _read(path))
    yield answers
    told = answers.before | answers.asked if some else answers.asked
    if told != answers.before:
        text = json.dumps(told, ensure_ascii=False)
        with contextlib.suppress(OSError):
            write_atomically(path, f"{_digest(text.encode())}\n{text}")


def forget(name: str, but: Collection[str]) -> None:
    """Drop what is kept under names `<name>/<each>`, but for some of them."""
    for path in (home() / "kept" / name).glob("*.json"):
        if path.stem not in but:
            with contextlib.suppress(OSError):
                path.unlink()


def _read(path: Path) -> dict[str, Any]:
    """The answers in a file; none when it is not there, not whole or not ours."""
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
    except OSError:
        return {}
    return dict(json.loads(text)) if digest.decode(errors="replace") == _digest(text) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
