"""Entries: all that is known of one family, gathered for its page.

An entry is the family's spec, its notes and its records, as read from the two folders that hold
them. Rendering takes entries and nothing else, so that a page says what the records say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

from nnpedia.checkpoints import runnable_names
from nnpedia.documents import Read, documents, name_of
from nnpedia.errors import place
from nnpedia.family import Family, load_families
from nnpedia.fences import read_document
from nnpedia.kept import Kept, digest_of
from nnpedia.lineages import Kin, kin_of, load_lineages
from nnpedia.placing import runs_placed
from nnpedia.record import Reference, Run, SnippetFact
from nnpedia.records import contents, read_as

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Entry:
    """One family: what its folder says and what its records found.

    No entry is equal to another, so that what follows from one is kept beside it: see `once`.
    """

    family: Family
    spec: str = ""  # family.yml, as written
    notes: str = ""  # notes.md, as written
    notes_file: str = "notes.md"  # as the records name it, for matching fences and for errors
    references: list[Reference] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    kin: Kin | None = None  # the lineage it is of

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
        """The notes' snippets, each with the run it stands in when it names no other."""
        return [
            snippet.model_copy(update={"on": snippet.on or run.origin.name}) if snippet.ran else snippet
            for run in self.runs
            for snippet in run.snippets
        ]

    @cached_property
    def apart(self) -> Entry:
        """The same apart from the words of its notes: of a snippet only whether it ran, and was right."""
        runs = [run.model_copy(update={"snippets": [_wordless(each) for each in run.snippets]}) for run in self.runs]
        return replace(self, notes="", runs=runs)

    @property
    def real(self) -> list[Run]:
        """The runs whose weights were trained."""
        return [run for run in self.runs if run.origin.source in ("package", "hub")]


def once(work_out: Callable[[Entry], T]) -> Callable[[Entry], T]:
    """Work out what follows from an entry alone once, for as long as the entry is there; nobody may change it."""
    known: WeakKeyDictionary[Entry, T] = WeakKeyDictionary()

    @wraps(work_out)
    def told(entry: Entry) -> T:
        if entry not in known:
            known[entry] = work_out(entry)
        return known[entry]

    return told


def load_entries(
    families: Path, home: Path, say: Callable[[str], None] = lambda line: None, *, stale: bool = False,
    last: Kept | None = None, specs: str = "",
) -> dict[str, Entry]:  # fmt: skip
    """Every family of the folder by name, with the records kept for it under `home`.

    An entry that is as it was is the one that `last` knows; `specs` stands for all of the folder but the notes.

    Raises `SpecError` for a spec that does not validate, and `BuildFailure` for a snippet that no record tells of,
    unless `stale` ones may be told of as not run; `say` gets a line about a record that cannot be read.
    """
    found, lineages, last = contents(home, say), load_lineages(families), last or Kept()
    with documents(families.parent, home, some=True) as read:

        def entry(family: Family) -> Entry:
            written = found.get(family.family, {})

            def made() -> Entry:
                facts = read_as(family.family, written, say)
                return load_entry(family, facts, kin_of(family, lineages), read, stale=stale)

            notes = family.notes.read_bytes() if family.notes.exists() else b""
            key = digest_of(family.family, specs, str(stale), notes, *written.values())
            found_before: Entry = last.answer(f"entry {key}", made)
            return found_before

        return {name: entry(family) for name, family in load_families(families).items()}


def load_entry(
    family: Family, facts: Sequence[Reference | Run], kin: Kin | None = None, read: Read | None = None,
    *, stale: bool = False,
) -> Entry:  # fmt: skip
    """One family with its records, the snippets where its notes have them; `read` and `stale` as in `load_entries`."""
    notes = family.notes.read_text(encoding="utf-8-sig") if family.notes.exists() else ""
    runs = [fact for fact in facts if isinstance(fact, Run)]
    if runs:
        file = place(family.notes)
        document = read(name_of(family.notes)) if read else read_document(file, notes)
        advice = f"`nnpedia build {family.family}` runs it" if stale else None
        runs = runs_placed(runs, document, runnable_names(family), advice)
    return Entry(
        family=family,
        spec=(family.folder / "family.yml").read_text(encoding="utf-8"),
        notes=notes,
        notes_file=place(family.notes),
        references=[fact for fact in facts if isinstance(fact, Reference)],
        runs=runs,
        kin=kin,
    )


def _wordless(fact: SnippetFact) -> SnippetFact:
    return SnippetFact(file="", line=0, section="", code="", ran=fact.ran, ok=fact.ok)


def slugs(records: Sequence[Reference | Run]) -> dict[str, Reference | Run]:
    """The records by a name that is safe in a URL: `meta-llama--Llama-3.2-1B`, `forge`."""
    found: dict[str, Reference | Run] = {}
    taken: set[str] = set()
    for record in records:
        plain = re.sub(r"[^\w.-]", "-", record.origin.name.replace("/", "--"), flags=re.ASCII)
        options = (plain, f"{plain}--{record.kind}", *(f"{plain}--{number}" for number in range(2, 999)))
        # compared without case: some file systems do not tell Llama from llama
        slug = next(option for option in options if option.lower() not in taken)
        taken.add(slug.lower())
        found[slug] = record
    return found
