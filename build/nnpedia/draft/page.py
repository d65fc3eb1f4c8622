"""The page of the coverage table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nnpedia.draft import coverage
from nnpedia.pages import Page, render


def coverage_page(folder: Path, described: Iterable[str]) -> Page:
    """Every causal language model of transformers, and how far a draft of it goes; measured, with what."""
    table = coverage.read_table(folder)
    html = render("coverage.html", table=table, described=sorted(described), states=coverage.STATES)
    text = "Every decoder-only causal language model of transformers: described here, drafted, or why not yet."
    return Page("coverage.md", "Coverage", html, description=text, wide=True)
