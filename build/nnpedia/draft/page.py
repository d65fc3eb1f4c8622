"""The page of the coverage table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nnpedia.draft import coverage
from nnpedia.pages import Page, render


def coverage_page(folder: Path, described: Iterable[str]) -> Page:
    """Every causal language model of transformers, and how far a draft of it goes; measured, with what.

    A family that was written since the table was measured stands among the families; a row older than what it depends
    on says what has changed, and what has for all of them is said once.
    """
    table, names = coverage.read_table(folder), sorted(described)
    inputs = coverage.inputs_of(folder)
    rows = {} if table is None else {**table.covers, **table.scores}
    changed = {name: coverage.since(name, row, inputs) for name, row in rows.items()}
    everywhere = [
        what for what in coverage.INPUTS if len(changed) > 1 and all(what in each for each in changed.values())
    ]
    html = render(
        "coverage.html",
        table=table,
        described=names,
        states=coverage.STATES,
        inputs=inputs.whole,
        says=coverage.INPUTS,
        changed=changed,
        everywhere=everywhere,
    )
    text = "Every decoder-only causal language model of transformers: described here, drafted, or why not yet."
    return Page("coverage.md", "Coverage", html, description=text, wide=True)
