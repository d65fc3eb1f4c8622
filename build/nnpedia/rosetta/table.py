"""The Rosetta table: a standard value, its native module, and the places of other libraries with what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnpedia import address, views
from nnpedia.entry import Entry
from nnpedia.pages import Page, render
from nnpedia.record import HostFact, ValueFact
from nnpedia.rosetta.record import Checked, Row, load
from nnpedia.translation import Library, load_translation
from nnpedia.translation import Place as Name
from nnpedia.wording import in_words


@dataclass(frozen=True)
class Cell:
    """A place of a library; `found` is None where it was not checked."""

    name: str
    says: str | None
    found: Row | None

    @property
    def mark(self) -> str:
        return self.found.verdict if self.found else "unchecked"

    @property
    def told(self) -> str:
        """What the check found, in words."""
        row = self.found
        if row is None:
            return "unchecked"
        if row.verdict == "missing":
            return "no such place on this model"
        if row.verdict == "differs":
            share = "" if row.share is None else f" by up to {shown_share(row.share)} of the largest number"
            return f"differs{share}{f': {row.how}' if row.how else ''}"
        return f"{row.how}: {in_words(row.error)}" if row.how else f"the same, {in_words(row.error)}"


def shown_share(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"


@dataclass(frozen=True)
class Line:
    """A value, where it is natively, and by library its places."""

    row: views.ValueRow
    native: str
    cells: Mapping[str, list[Cell]]


@dataclass(frozen=True)
class Table:
    libraries: Mapping[str, Library]
    checked: Mapping[str, Checked]  # by library, what was checked of this family
    lines: list[Line]


def table(entry: Entry, home: Path) -> Table:
    """The table of a built family."""
    libraries = load_translation(entry.family.folder.parent).libraries
    found = {name: load(home, entry.family, name) for name in libraries}
    checked = {name: each for name, each in found.items() if each is not None}
    hosts = {host.name: host for host in reversed(views.hosts_of(entry.facts[0]))}
    rows = [row for host in views.host_views(entry) for row in host.rows]
    return Table(
        libraries,
        checked,
        [
            Line(
                row,
                native(row.fact, hosts.get(row.fact.host), entry.family.names.get(row.fact.host, {})),
                {name: cells(library, row, checked.get(name)) for name, library in libraries.items()},
            )
            for row in rows
        ],
    )


def cells(library: Library, row: views.ValueRow, checked: Checked | None) -> list[Cell]:
    fact = row.fact
    rows = {(each.host, each.name, each.place): each for each in checked.rows} if checked else {}
    return [
        Cell(place.name, place.says, rows.get((fact.host, fact.name, place.name)))
        for place in library.places(fact.host, fact.name)
    ]


def native(fact: ValueFact, host: HostFact | None, names: Mapping[str, str]) -> str:
    """The native module that a value is read at, and which side of it: `transformer.h.{i}.attn.c_proj input`."""
    if fact.address is None:
        return ""
    place = address.parse(fact.address)
    back = {standard: own for own, standard in names.items()}
    child = back.get(".".join(place.children), ".".join(place.children))
    root = host.native_path.replace(".0", ".{i}", 1) if host and host.native_path != "model" else ""
    module = {"": ".".join(filter(None, (root, child))), "^": child, "/": child}[place.anchor]
    side = "inside its forward" if place.operations else place.access
    return f"{module or 'model'} {side}"


@dataclass(frozen=True)
class Tally:
    """A place over all families: where it holds the value, where otherwise, and where not."""

    name: Name
    families: Mapping[str, list[str]]  # by verdict


@dataclass(frozen=True)
class Overview:
    host: str
    value: str
    tallies: Mapping[str, list[Tally]]  # by library


def page(folder: Path, entries: Mapping[str, Entry], home: Path) -> Page:
    """The table over all families."""
    built = [entry for entry in entries.values() if entry.built]
    libraries = load_translation(folder).libraries
    checks = {name: [found for each in built if (found := load(home, each.family, name))] for name in libraries}
    html = render("translate.html", libraries=libraries, checks=checks, lines=list(overview(built, libraries, checks)))
    says = "What TransformerLens and nnterp call the standard values, checked on the same weights."
    return Page("translate.md", "Translate", html, description=says, wide=True)


def overview(
    built: Sequence[Entry], libraries: Mapping[str, Library], checks: Mapping[str, list[Checked]]
) -> Iterator[Overview]:
    if not built:
        return
    for host, values in built[0].family.vocabulary.values.items():
        for value in values:
            yield Overview(
                host,
                value,
                {
                    name: [tally(place, host, value, checks[name]) for place in library.places(host, value)]
                    for name, library in libraries.items()
                },
            )


def tally(place: Name, host: str, value: str, checks: Sequence[Checked]) -> Tally:
    found: dict[str, list[str]] = {}
    for checked in checks:
        for row in checked.rows:
            if (row.host, row.name, row.place) == (host, value, place.name):
                found.setdefault(row.verdict, []).append(checked.family)
    return Tally(place, found)
