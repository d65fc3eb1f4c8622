"""Moves: what differs between the releases of transformers that the specs are told for, from the specs alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nnpedia.entryspec import LawSpec, ValueSpec
from nnpedia.family import Family, load_family
from nnpedia.fences import read_document
from nnpedia.infostring import SPAN
from nnpedia.versions import MOVES, Span


@dataclass(frozen=True)
class Move:
    """A value or a law that some releases have elsewhere, or otherwise, and the families it is said of."""

    host: str
    name: str
    law: bool
    when: str  # "before 5.24"
    then: str
    now: str
    families: list[str] = field(default_factory=list)


def moves(families: Sequence[Family]) -> list[Move]:
    """Every entry of `moved` that a family's values and laws have, families that say the same together."""
    found: dict[tuple[str, str, bool, str, str, str], list[str]] = {}
    for family in families:
        for host, name, law, when, then, now in _of(family):
            found.setdefault((host, name, law, when, then, now), []).append(family.family)
    return [Move(*key, families=names) for key, names in found.items()]


@dataclass(frozen=True)
class Told:
    """A family, or snippets of its notes, that only some releases have."""

    family: str
    when: str  # "since 5.23"
    section: str = ""  # the heading that the snippets stand under, and `slug` its anchor
    slug: str = ""


def younger(families: Sequence[Family]) -> list[Told]:
    """The families that are younger than the oldest release that is supported."""
    return [Told(family.family, Span(since=family.since).words()) for family in families if family.since]


def noted(families: Sequence[Family]) -> list[Told]:
    """The sections of notes with a snippet that runs on some releases only."""
    found: list[Told] = []
    for family in families:
        text = family.notes.read_text(encoding="utf-8-sig") if family.notes.is_file() else ""
        if any(f"{option}=" in text for option in SPAN):  # few have any, and reading a page takes its time
            spans = ((fence, fence.span) for fence in read_document(family.notes, text).fences)
            found += [Told(family.family, span.words(), fence.section, fence.slug) for fence, span in spans if span]
    return list(dict.fromkeys(found))


def _of(family: Family) -> Iterator[tuple[str, str, bool, str, str, str]]:
    told = family.vocabulary.versions.get(MOVES)
    if told is None:
        return
    measured = load_family(family.folder, family.variant, told.measured)
    for host, values in measured.values.items():
        for name, value in values.items():
            for entry in value.moved if value.absent is None else ():
                yield host, name, False, entry.words(), _place(entry.over(value)), _place(value)
    for host, laws in measured.laws.items():
        for name, law in laws.items():
            for change in law.moved:
                yield host, name, True, change.words(), _reads(change.over(law)), _reads(law)


def _place(value: ValueSpec) -> str:
    if value.absent is not None:
        return f"absent: {value.absent}"
    return value.at or f"reader {value.reader}" + (f" of {value.of}" if value.of else "")


def _reads(law: LawSpec) -> str:
    return f"does not hold: {law.exception}" if law.exception else law.formula
