"""A page's code: the fences of it that run, apart from the prose around them.

What a fence gives depends on its code, its options and the fence it continues, and on no prose. So it
is run, and recorded, at the line it would have on a page of nothing but such fences, and a record is
keyed by those alone. `nnpedia.placing` says where on its page a fence is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from nnpedia.claims import count_asserts
from nnpedia.failures import AROUND
from nnpedia.fences import Fence
from nnpedia.infostring import SPAN
from nnpedia.record import SnippetFact

GAP = AROUND + 1  # blank lines between two fences: those shown around a failing one are then its own


def running(found: Sequence[Fence], name: str | None = None, runnables: Sequence[str] = ()) -> list[Fence]:
    """The fences of a page that run, or those on one of a family's runnables, the first where they name none."""
    first = runnables[0] if runnables else name
    return [
        fence for fence in found if fence.runs and not fence.problem and (name is None or (fence.on or first) == name)
    ]


def apart(found: Sequence[Fence]) -> list[Fence]:
    """The fences as they would stand on a page of nothing else."""
    placed: list[Fence] = []
    line = 1
    for fence in found:
        end = line + fence.code.count("\n") + 1
        placed.append(replace(fence, line=line, section="", slug="", opening=line - 1, closing=end, indent=""))
        line = end + GAP
    return placed


def said(found: Sequence[Fence]) -> str:
    """All that what these fences give depends on, as text."""
    return json.dumps([[fence.code, options_of(fence)] for fence in found], ensure_ascii=False)


def options_of(fence: Fence) -> dict[str, str]:
    """The options that a run of the fence depends on, in one order."""
    return {key: fence.options[key] for key in sorted(fence.options) if key not in SPAN}


def fact_of(fence: Fence, *, ran: bool, output: str = "", error: str | None = None) -> SnippetFact:
    return SnippetFact(
        file=fence.file,
        line=fence.line,
        section=fence.section,
        code=fence.code,
        options=options_of(fence),
        ran=ran,
        reason=fence.reason,
        on=fence.on,
        load=fence.load,
        output=output,
        asserts=count_asserts(fence.code),
        ok=error is None,
        error=error,
    )
