"""Variants: which of a family's records are of which variant, and how a set of records is named by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nnpedia.entry import Entry
from nnpedia.familyspec import Variant
from nnpedia.record import Reference, Run, ValueFact

BASE = "base layout"  # of the checkpoints that no variant matches
Signature = tuple[object, ...]


def variants_of(entry: Entry, record: Reference | Run) -> list[str]:
    """The variants of a record's checkpoint, told by its config; one that another of them implies is left out."""
    settings = {row.key: row.value for row in record.config}
    found = {
        name: variant for name, variant in entry.family.variants.items() if _is_of(name, variant, record, settings)
    }
    return [
        name
        for name, variant in found.items()
        if not any(other is not variant and variant.when.items() <= other.when.items() for other in found.values())
    ]


def _is_of(name: str, variant: Variant, record: Reference | Run, settings: dict[str, object]) -> bool:
    if record.origin.name in (f"forge-{name}", variant.checkpoint):
        return True
    return all(settings.get(key) == value for key, value in variant.when.items())


def named(entry: Entry, records: Sequence[Reference | Run], among: Sequence[Reference | Run]) -> str:
    """A set of records in words: the layouts that it holds all records of `among` of, else the checkpoints' names."""
    groups: dict[str, set[str]] = {}
    for record in [*entry.facts, *among]:
        groups.setdefault(layout(entry, record), set())
    for record in among:
        groups[layout(entry, record)].add(record.origin.name)
    wanted = {record.origin.name for record in records}
    chosen = [name for name, members in groups.items() if members and members <= wanted]
    if wanted - set().union(*(groups[name] for name in chosen)):
        return ", ".join(record.origin.name for record in records)
    return ", ".join(chosen)


def layout(entry: Entry, record: Reference | Run) -> str:
    """What a record's layout is called: its variants, or that it has none."""
    return " + ".join(variants_of(entry, record)) or BASE


def signature(fact: ValueFact) -> Signature:
    """What a row says of a value: two records with the same signature need one row."""
    return fact.absent, fact.address, fact.reader, fact.native, fact.layout, fact.description


@dataclass(frozen=True)
class VariantView:
    """A variant as the page tells it: what it is, who has it, and the values that differ from the first run's."""

    name: str
    says: str
    when: list[tuple[str, object]]
    checkpoints: list[str]
    runs: list[Run]
    moved: list[ValueFact] = field(default_factory=list)  # there in both, said otherwise
    gained: list[ValueFact] = field(default_factory=list)
    lost: list[ValueFact] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return f"variant-{self.name}"


def variant_views(entry: Entry) -> list[VariantView]:
    """The variants in the spec's order. What differs is told from the runs: the variant's own and the first one."""
    plain = next((run for run in entry.runs if not variants_of(entry, run)), None)
    return [_view(entry, name, plain) for name in entry.family.variants]


def _view(entry: Entry, name: str, plain: Run | None) -> VariantView:
    variant = entry.family.variants[name]
    members = [record for record in entry.facts if name in variants_of(entry, record)]
    own = [record for record in members if isinstance(record, Run)]
    own.sort(key=lambda run: run.origin.name != f"forge-{name}")
    view = VariantView(
        name=name,
        says=variant.says,
        when=list(variant.when.items()),
        checkpoints=[record.origin.name for record in members if isinstance(record, Reference)],
        runs=own,
    )
    if plain is None or not own:
        return view
    before = {(fact.host, fact.name): fact for fact in plain.values}
    for fact in own[0].values:
        other = before.get((fact.host, fact.name))
        if other is None or signature(other) == signature(fact) or (other.absent and fact.absent):
            continue
        (view.gained if other.absent else view.lost if fact.absent else view.moved).append(fact)
    return view
