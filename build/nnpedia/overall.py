"""Overall: the pages and files that are made of all families together.

None of them says a word of the families' notes: they are made of entries that have none. So an edit of words leaves
them as they are, and a server need not make them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from nnpedia import finding, pages, reuse
from nnpedia.badges import Badge
from nnpedia.draft.page import coverage_page
from nnpedia.entry import Entry
from nnpedia.familypages import told
from nnpedia.kept import digest_of
from nnpedia.pages import Page
from nnpedia.rosetta import table as rosetta
from nnpedia.rosetta.record import files as checks

NOTES = "notes.md"


@dataclass(frozen=True)
class Overall:
    """What all families together give.

    Attributes:
        pages: The pages of values, laws, badges and all else that compares or lists.
        cards: The families' cards, which the home page shows too.
        data: Their JSON, by the path from the site's root.
        things: What the search knows of them.
    """

    pages: list[Page]
    cards: Markup
    data: dict[str, str]
    things: list[finding.Name]


def overall(folder: Path, home: Path, entries: Mapping[str, Entry], badges: Mapping[str, Badge]) -> Overall:
    """Make them, of the families folder, what is kept in the cache folder, and the entries apart from their notes."""
    apart = {name: entry.apart for name, entry in entries.items()}
    made = [
        *finding.pages(folder, apart, badges),
        pages.readers_page(apart),
        *pages.badge_pages(apart, badges),
        rosetta.page(folder, apart, home),
        reuse.library_page(),
        coverage_page(folder, apart),
    ]
    return Overall(
        made, finding.index_cards(apart, badges), reuse.data(apart, badges), finding.named(folder, apart, badges)
    )


def made_from(specs: str, home: Path, entries: Mapping[str, Entry], look: str) -> str:
    """The digest of all that they are made from but the code; `specs` stands for the folder, `look` for templates."""
    found = [path.read_bytes() for path in checks(home)]
    return digest_of(specs, look, *(told(entry.apart) for entry in entries.values()), *found)


def specs_of(folder: Path) -> str:
    """The digest of a families folder: specs, vocabulary and tables, all but the notes."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != NOTES]
    return digest_of(*(part for path in paths for part in (path.relative_to(folder).as_posix(), path.read_bytes())))
