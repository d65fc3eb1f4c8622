"""Explore: what a reader of a family page chooses from: checkpoints, the blocks of each, and the pictures of those.

A page carries every picture once, and for each checkpoint which of them a block looks like. All else
about a checkpoint is in its own record, which the page asks for when it is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from nnpedia import diagram, operators
from nnpedia.entry import Entry
from nnpedia.operators import Step
from nnpedia.record import LawFact, Reference, Run
from nnpedia.shapes import Diagram
from nnpedia.variants import variants_of
from nnpedia.wording import spans


@dataclass(frozen=True)
class Kind:
    """The blocks of one checkpoint that are alike: what they are called, and which picture shows them."""

    label: str
    layers: list[int]
    hue: int
    look: int
    sizes: dict[str, int]

    @property
    def count(self) -> int:
        return len(self.layers)


@dataclass(frozen=True)
class Choice:
    """A checkpoint to choose."""

    record: Reference | Run
    kinds: list[Kind]

    @property
    def layers(self) -> int:
        return sum(len(kind.layers) for kind in self.kinds)

    def data(self, slug: str) -> dict[str, object]:
        """What a script needs before it has the record."""
        blocks = [
            [kind.label, spans(kind.layers), kind.hue, kind.look, *([kind.sizes] if kind.sizes else [])]
            for kind in self.kinds
        ]
        origin = self.record.origin
        return {"slug": slug, "name": origin.name, "dtype": origin.dtype, "layers": self.layers, "kinds": blocks}


@dataclass
class Look:
    """A picture, and the blocks that look like it: by checkpoint, kinds and how many of its layers."""

    drawn: Diagram
    number: int
    of: list[tuple[Choice, list[Kind]]] = field(default_factory=list)


@dataclass(frozen=True)
class Explore:
    choices: list[Choice]
    looks: list[Look]

    @property
    def first(self) -> list[Look]:
        """The pictures of the first checkpoint's blocks."""
        return [look for look in self.looks if look.of[0][0] is self.choices[0]]

    @property
    def others(self) -> list[Look]:
        return [look for look in self.looks if look.of[0][0] is not self.choices[0]]

    def lacking(self, look: Look, rows: Iterable[tuple[str, str]]) -> list[tuple[str, bool, list[str]]]:
        """The values that blocks of this look lack and others of the family have: host, whether all of it, names."""
        of_host: dict[str, list[str]] = {}
        for host, name in rows:
            if host != "model":
                of_host.setdefault(host, []).append(name)
        shown = set(look.drawn.names)
        missing = {host: [name for name in names if (host, name) not in shown] for host, names in of_host.items()}
        return [(host, len(names) == len(of_host[host]), names) for host, names in missing.items() if names]


def explore(entry: Entry, varies: Collection[str]) -> Explore:
    """Every checkpoint of a built family and every picture of its blocks; `varies` as `diagram.diagrams` has it."""
    looks: dict[object, Look] = {}
    hues: dict[str, int] = {}
    choices = []
    for record in entry.facts:
        laws = laws_of(entry, record)
        choice = Choice(record, [])
        for kind, (drawn, label) in zip(record.kinds, diagram.each_kind(record, varies, laws), strict=True):
            look = looks.setdefault(repr(drawn.picture), Look(drawn, len(looks)))
            found = Kind(label, kind.layers, hues.setdefault(label, len(hues) % 6), look.number, kind.sizes)
            choice.kinds.append(found)
            if look.of and look.of[-1][0] is choice:
                look.of[-1][1].append(found)
            else:
                look.of.append((choice, [found]))
        choices.append(choice)
    return Explore(choices, list(looks.values()))


def laws_of(entry: Entry, record: Reference | Run) -> Sequence[LawFact]:
    """The laws measured on the record's own model, or for one that did not run on the first run of its layout."""
    if isinstance(record, Run):
        return record.laws
    mine = variants_of(entry, record)
    return next((run.laws for run in entry.runs if variants_of(entry, run) == mine), [])


def around(entry: Entry) -> dict[str, list[Step]]:
    """What is done to the embedding before the first block, and to what lm_head returns before it is the logits."""
    first = entry.facts[0]
    named = {value.name for value in first.values}
    here = {value.name for value in first.values if value.absent is None}
    unset = {row.key for row in first.config if row.value is None}
    return {
        place: operators.steps(laws_of(entry, first), "model", value, here, named, unset, through=True)
        for place, value in (("before", "layer_input"), ("after", "logits"))
    }
