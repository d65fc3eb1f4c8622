"""Documents: the pages of a checkout as read for their fences, each read once for as long as it stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from nnpedia.dependence import code_of
from nnpedia.errors import SpecError
from nnpedia.fences import Document, read_document
from nnpedia.kept import kept
from nnpedia.versions import MOVES, installed

Read = Callable[[str], Document]
"""A page's path from the root of the checkout → the page; one without fences where there is none."""

_DOCUMENT = TypeAdapter(Document)
_READING = ("markdown", "pymdown-extensions", "pygments", MOVES)  # what says which fences there are, and which run


@contextmanager
def documents(root: Path, home: Path, *, some: bool = False) -> Iterator[Read]:
    """Read the pages of a checkout, with what was read before kept in the cache folder; `some` as in `kept`."""
    with kept("documents", _code(), home, some=some) as known:

        def read(name: str) -> Document:
            path = root / name
            if not path.exists():
                return Document(name, (), (), ())
            try:
                text = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                what = getattr(error, "strerror", None) or error
                raise SpecError(f"cannot be read: {what}", where=name) from None
            said = known.answer(
                f"{name}\0{text}",
                lambda: _DOCUMENT.dump_python(read_document(name, text), mode="json"),
            )
            return _DOCUMENT.validate_python(said)

        yield read


def name_of(notes: Path) -> str:
    """A family's notes.md from the folder that the families lie in, as records and errors name it."""
    return notes.relative_to(notes.parent.parent.parent).as_posix()


@cache
def _code() -> str:
    """What stands for all that reads a page."""
    return f"{code_of(read_document.__module__)} {[(name, installed(name)) for name in _READING]}"
