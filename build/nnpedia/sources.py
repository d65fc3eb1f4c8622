"""Sources: a page's Python as a source file of its own, each line at its number in the page."""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from nnpedia.fences import Fence


def padded(links: Sequence[Fence]) -> str:
    """The code of a chain, each line at its number in the page."""
    lines: list[str] = []
    for fence in links:
        lines += [""] * (fence.line - 1 - len(lines))
        lines += fence.code.split("\n")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def source_under(file: str, text: str) -> Iterator[None]:
    """Let `text` be what Python and nnsight read under the name `file`."""

    def forget() -> None:
        linecache.cache.pop(file, None)
        # nnsight keeps sources and compiled blocks by file and line for the process's life:
        # another snippet of the page, or an edited page, would run the old block.
        kept: Any = sys.modules.get("nnsight.tracing.globals")
        if kept:
            kept.SOURCES.pop(file, None)
            for site in [site for site in kept.BLOCKS if site[0] == file]:
                del kept.BLOCKS[site]

    forget()
    # No modification time: `linecache.checkcache` then leaves the entry alone.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        yield
    finally:
        forget()
