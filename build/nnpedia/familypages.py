"""Family pages: each family's page and its other forms, made again only where what they are made of changed.

What was made is kept in the cache folder, a file for each family, under the digest of all that went in: the
specs, the notes, the records, the templates, the code and what renders. A page that is there is given as it
was, so that a site made after an edit is, byte for byte, the one made from nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from nnpedia import pages, reuse
from nnpedia.badges import Badge
from nnpedia.cache import templates_folder
from nnpedia.dependence import code_of
from nnpedia.entry import Entry, once
from nnpedia.kept import digest_of, forget, kept
from nnpedia.pages import Page
from nnpedia.prose import Heading
from nnpedia.versions import MOVES, installed

FOLDER = "families"
_RENDERING = ("markdown", "pymdown-extensions", "pygments", "jinja2", "markupsafe", "nbformat", MOVES, "nnsight")


Made = tuple[Page, dict[str, str]]


@dataclass(frozen=True)
class FamilyPage:
    """A family's page, and its other forms and its data by their path from the site's root."""

    page: Page
    forms: dict[str, str]
    data: dict[str, str]


@dataclass
class FamilyPages:
    """What a process made so far, which the next build of a server need not even read."""

    known: dict[str, tuple[str, FamilyPage]] = field(default_factory=dict)

    def of(
        self, entry: Entry, badges: Mapping[str, Badge], entries: Mapping[str, Entry], rosetta: object, look: str
    ) -> FamilyPage:
        """A family's page and forms; `rosetta` is its table of other libraries, `look` stands for the templates.

        Raises what `pages.family_page` raises.
        """
        text = made_from(entry, badges, entries, rosetta, look)
        if self.known.get(entry.name, ("",))[0] != text:
            with kept(f"{FOLDER}/{entry.name}", _code()) as before:
                told = before.answer(text, lambda: _as_data(_made(entry, badges, entries, rosetta)))
            self.known[entry.name] = text, _from_data(told, reuse.family_data(entry))
        return self.known[entry.name][1]

    def only(self, names: Collection[str]) -> None:
        """Forget every family but these."""
        self.known = {name: each for name, each in self.known.items() if name in names}
        forget(FOLDER, names)


def made_from(
    entry: Entry, badges: Mapping[str, Badge], entries: Mapping[str, Entry], rosetta: object, look: str
) -> str:
    """The digest of all that a family's page is made from, but the code."""
    family = entry.family
    base = entries.get(family.extends or "")
    specs = [family.folder / "family.yml", *family.bases, family.folder.parent / "vocabulary.yml"]
    around = repr(sorted(badges.items())), repr(base and base.name), repr(rosetta)
    return digest_of(told(entry), *(_text(path) for path in specs), *around, look)


@once
def told(entry: Entry) -> str:
    """The digest of what an entry says itself; the specs that its family is merged from are no part of it."""
    words = entry.spec, entry.notes, entry.notes_file, repr(entry.kin)
    return digest_of(entry.name, *words, *(record.model_dump_json() for record in entry.facts))


def look() -> str:
    """The digest of the templates."""
    folder, digest = templates_folder(), hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _made(entry: Entry, badges: Mapping[str, Badge], entries: Mapping[str, Entry], rosetta: object) -> Made:
    page = pages.family_page(entry, badges, entries, rosetta)
    return page, reuse.forms({entry.name: entry}, badges, ())


def _as_data(made: Made) -> dict[str, Any]:
    page, forms = made
    return {"page": asdict(page) | {"html": str(page.html)}, "forms": forms}


def _from_data(told: dict[str, Any], data: dict[str, str]) -> FamilyPage:
    headings = [Heading(**heading) for heading in told["page"]["headings"]]
    page = Page(**told["page"] | {"html": Markup(told["page"]["html"]), "headings": headings})
    return FamilyPage(page, told["forms"], data)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _code() -> str:
    """What stands for all that makes a page but what it is made from."""
    return f"{code_of('nnpedia.pages', 'nnpedia.reuse')} {[(name, installed(name)) for name in _RENDERING]}"
