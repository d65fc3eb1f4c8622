"""Entries: all that is known of one family, gathered for its page.

An entry is the family's spec, its notes and its records, as read from the two folders that hold
them. Rendering takes entries and nothing else, so that a page says what the records say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from nnpedia.errors import BuildFailure, place
from nnpedia.family import Family, load_families
from nnpedia.record import Reference, Run, SnippetFact


@dataclass(frozen=True)
class Entry:
    """One family: what its folder says and what its records found."""

    family: Family
    spec: str = ""  # family.yml, as written
    notes: str = ""  # notes.md, as written
    notes_file: str = "notes.md"  # as the records name it, for matching fences and for errors
    references: list[Reference] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.family.family

    @property
    def built(self) -> bool:
        return bool(self.references or self.runs)

    @property
    def facts(self) -> list[Reference | Run]:
        """Every record, the full-size ones first: the first of them speaks for the family."""
        return [*self.references, *self.runs]

    @property
    def snippets(self) -> list[SnippetFact]:
        return [snippet for run in self.runs for snippet in run.snippets]

    @property
    def real(self) -> list[Run]:
        """The runs whose weights were trained."""
        return [run for run in self.runs if run.origin.source in ("package", "hub")]


def load_entries(families: Path, records: Path) -> dict[str, Entry]:
    """Every family of the folder by name, with the records found for it.

    Raises `SpecError` for a spec that does not validate and `BuildFailure` for a record that
    is not one.
    """
    return {name: load_entry(family, families / name, records / name) for name, family in load_families(families).items()}


def load_entry(family: Family, folder: Path, records: Path) -> Entry:
    notes = folder / "notes.md"
    facts = [read_record(path) for path in sorted(records.glob("*.json"))]
    order = {checkpoint.id: place for place, checkpoint in enumerate(family.checkpoints)}
    references = [fact for fact in facts if isinstance(fact, Reference)]
    runs = [fact for fact in facts if isinstance(fact, Run)]
    return Entry(
        family=family,
        spec=(folder / "family.yml").read_text(encoding="utf-8"),
        notes=notes.read_text(encoding="utf-8") if notes.exists() else "",
        notes_file=place(notes),
        references=sorted(references, key=lambda fact: order.get(fact.origin.name, len(order))),
        runs=sorted(runs, key=lambda run: (run.origin.source == "forge", run.origin.name)),
    )


def read_record(path: Path) -> Reference | Run:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Run.model_validate(data) if data.get("kind") == "run" else Reference.model_validate(data)
    except (ValueError, ValidationError) as error:
        raise BuildFailure(f"not a record of this version ({str(error).splitlines()[0]}); build it again", where=str(path)) from None
