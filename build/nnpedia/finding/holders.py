"""Holders: for one value, the families that have it, where each of them reads it, and who lacks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nnpedia import overview, views
from nnpedia.entry import Entry
from nnpedia.record import ValueFact
from nnpedia.views import CALL_AXES, Pair, ValueRow


@dataclass(frozen=True)
class Holder:
    """A family that has a value; `where` names the variants it has it so on, where they differ."""

    family: str
    where: str
    row: ValueRow
    fact: ValueFact

    @property
    def sized(self) -> str:
        """The layout with the reference checkpoint's numbers, the call's axes by name: `batch 32 seq 128`."""
        if self.fact.shape is None or len(self.fact.shape) != len(self.fact.axes):
            return ""
        pairs = zip(self.fact.axes, self.fact.shape, strict=True)
        return " ".join(axis if axis in CALL_AXES else str(size) for axis, size in pairs)

    @property
    def notes(self) -> list[str]:
        """Its condition and its blocks, in words, where it has some."""
        blocks = [f"on {layers} of {names}" for names, layers in self.row.layers]
        return [*([self.row.condition] if self.row.condition else []), *blocks]


@dataclass(frozen=True)
class Place:
    """A place that a value is read at, with the families that read it there."""

    fact: ValueFact
    holders: list[Holder]

    @property
    def groups(self) -> list[tuple[str, list[Holder]]]:
        """The families by what is to say of them: nothing first, then what is said of most."""
        found: dict[str, list[Holder]] = {}
        for holder in self.holders:
            said = [holder.fact.description] if holder.fact.description != self.fact.description else []
            where = [f"on {holder.where}"] if holder.where else []
            found.setdefault("; ".join([*where, *holder.notes, *said]), []).append(holder)
        return sorted(found.items(), key=lambda group: (group[0] != "", -len(group[1])))


@dataclass(frozen=True)
class Held:
    """A value over all families."""

    host: str
    name: str
    places: list[Place]
    lacking: dict[str, list[str]] = field(default_factory=dict)  # the reason, and the families that give it

    @property
    def families(self) -> list[str]:
        return list(dict.fromkeys(holder.family for place in self.places for holder in place.holders))

    @property
    def facts(self) -> list[Holder]:
        return [holder for place in self.places for holder in place.holders]

    def access(self) -> dict[str, list[str]]:
        """What can be done with it, and the families where that was found."""
        found: dict[str, list[str]] = {}
        rows = {holder.family: holder.row for holder in self.facts}
        for family, row in rows.items():
            can = "read, assign, edit in place" if row.in_place else "read, assign" if row.assignable else "read"
            found.setdefault(can, []).append(family)
        return found


def rows_of(entry: Entry) -> dict[Pair, ValueRow]:
    """A family's values as its page shows them."""
    return {(row.fact.host, row.fact.name): row for host in views.host_views(entry) for row in host.rows}


def held(
    host: str, name: str, rows: Mapping[str, dict[Pair, ValueRow]], cells: Mapping[str, Mapping[Pair, overview.Cell]]
) -> Held:
    """What the families' rows and cells say of one value; the place that most families share stands first."""
    pair = host, name
    places: dict[tuple[object, ...], list[Holder]] = {}
    for family, own in rows.items():
        if pair in own:
            for holder in holders(family, own[pair]):
                fact = holder.fact
                key = fact.words, fact.address, fact.reader, fact.native, fact.layout
                places.setdefault(key, []).append(holder)
    lacking: dict[str, list[str]] = {}
    for family, column in cells.items():
        if not column[pair].served:
            lacking.setdefault(column[pair].says, []).append(family)
    ordered = sorted(places.values(), key=len, reverse=True)
    return Held(host, name, [Place(group[0].fact, group) for group in ordered], by_number(lacking))


def holders(family: str, row: ValueRow) -> Sequence[Holder]:
    """One for each of the places that the family's checkpoints have the value at."""
    others = [form for form in row.otherwise if form.fact.absent is None]
    return [Holder(family, row.of, row, row.fact), *(Holder(family, form.where, row, form.fact) for form in others)]


def by_number(reasons: dict[str, list[str]]) -> dict[str, list[str]]:
    return dict(sorted(reasons.items(), key=lambda each: -len(each[1])))
