"""Finding: the pages and files that lead a reader from a name to the families that have the thing.

A page per value and per law with their lists, the matrix of values by families, the cards and their
filters, the comparison of families, and the names that the search knows. All of it is made from the
same rows as the families' pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from nnpedia.badges import Badge
from nnpedia.dependence import code_of
from nnpedia.entry import Entry
from nnpedia.finding import names as names_module
from nnpedia.finding.cards import families_page, index_cards
from nnpedia.finding.comparing import compare_page
from nnpedia.finding.lawpages import law_entries, law_pages
from nnpedia.finding.matrix import matrix_page
from nnpedia.finding.names import URI as NAMES
from nnpedia.finding.names import Name, names_file, things
from nnpedia.finding.valuepages import value_pages
from nnpedia.kept import kept
from nnpedia.pages import Page

__all__ = ["NAMES", "Name", "index_cards", "named", "names", "pages"]


def pages(folder: Path, entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> list[Page]:
    """Every page of this kind, made from the families folder and the entries of its families."""
    laws = law_entries(folder, entries)
    return [
        families_page(entries, badges),
        *value_pages(folder, entries, laws),
        *law_pages(folder, laws, entries),
        matrix_page(entries),
        compare_page(entries, badges),
    ]


def named(folder: Path, entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> list[Name]:
    """The values, laws, families and badges, as the search knows them."""
    return things(folder, entries, badges, law_entries(folder, entries))


def names(things: Iterable[Name], written: Mapping[str, tuple[str, str]]) -> str:
    """The file that the search looks things up in; `written` are titles and HTML of pages by where they are."""
    with kept("names", code_of(names_module.__name__)) as known:
        return names_file(things, written, known)
