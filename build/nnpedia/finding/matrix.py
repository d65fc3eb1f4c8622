"""The matrix: every value on every family, with what stands behind each cell."""

from __future__ import annotations

from collections.abc import Mapping

from nnpedia import overview
from nnpedia.entry import Entry
from nnpedia.pages import Page, render

MARKS: dict[overview.State, str] = {
    "served": "●",
    "loads": "⚠︎",
    "blocks": "◐",
    "checkpoints": "◇",
    "absent": "–",
    "unknown": "?",
}


def matrix_page(entries: Mapping[str, Entry]) -> Page:
    """The table of values by families. A reason is written once, below it; cells name it by its number."""
    table = overview.table(list(entries.values()))
    numbers = {(reason.state, reason.says): number for number, reason in enumerate(table.reasons, 1)}
    html = render(
        "matrix.html",
        table=table,
        states=overview.STATES,
        brief=overview.BRIEF,
        marks=MARKS,
        number=lambda cell: numbers.get((cell.states[0], cell.says)),
    )
    says = "Every value of the vocabulary on every family: served, under which loads, on which blocks, or why not."
    head = "Values by families: what every model serves"
    return Page("matrix.md", "Matrix", html, description=says, wide=True, head=head)
