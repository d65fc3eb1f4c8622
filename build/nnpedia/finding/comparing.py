"""The comparison of families: a page that a script fills from the families' own records under api/v1."""

from __future__ import annotations

from collections.abc import Mapping

from nnpedia.badges import Badge
from nnpedia.entry import Entry
from nnpedia.finding.names import held
from nnpedia.pages import Page, render


def compare_page(entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> Page:
    """The choice of families, and what the script needs to name what they have."""
    built = [entry for entry in entries.values() if entry.built]
    html = render("compare.html", entries=built, badges={name: badges[name] for name in held(entries)})
    says = "Two or three transformer families side by side: values, where they are read, laws, sizes and badges."
    return Page("compare.md", "Compare", html, description=says, wide=True, head="Compare transformer families")
