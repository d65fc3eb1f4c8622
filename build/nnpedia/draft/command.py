"""The command `nnpedia draft`: a draft written into a families folder, and told of line by line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nnpedia.errors import SpecError, place


@dataclass(frozen=True)
class Told:
    """What a draft is told as: one line for each value, and the counts."""

    family: str
    folder: str
    extends: str | None
    proven: list[str]
    todo: list[str]
    untold: list[str]
    problems: list[str]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def lines(self) -> Iterator[str]:
        yield f"{self.folder}: {self.family}, extending {self.extends or 'nothing'}"
        yield from (f"  proven  {one}" for one in self.proven)
        yield from (f"  todo    {one}" for one in self.todo)
        yield from (f"  law     {one}" for one in self.untold)
        yield from (f"  wrong   {one}" for one in self.problems)
        yield f"{len(self.proven)} values proven, {len(self.todo)} not worked out, {len(self.problems)} problems"

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def run(name: str, families: Path, out: Path, force: bool) -> Told:
    """Draft `name` into `out`; raises `SpecError` when the family is there already, unless forced."""
    from nnpedia.draft.drafting import draft
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.writing import HEADING, as_yaml

    subject = open_subject(name)
    target = out / subject.model_type
    if target.exists() and not force:
        raise SpecError("there is such a family already; --force writes over it", where=place(target / "family.yml"))
    made = draft(name, families)
    target.mkdir(parents=True, exist_ok=True)
    (target / "family.yml").write_text(HEADING + as_yaml(made.spec), encoding="utf-8")
    (target / "notes.md").write_text(made.notes, encoding="utf-8")
    _with_vocabulary(out, families)
    return _told(made, target)


def _with_vocabulary(out: Path, families: Path) -> None:
    """A families folder has a vocabulary: a new one gets that of the families it was drafted beside, and those."""
    if (out / "vocabulary.yml").exists():
        return
    for name in ("vocabulary.yml", "badges.yml"):
        shutil.copy(families / name, out / name)
    for spec in families.glob("*/family.yml"):
        beside = out / spec.parent.name
        if not beside.exists():
            shutil.copytree(spec.parent, beside)


def _told(made: Any, target: Path) -> Told:
    proven = [f"{host}.{name}  {_where(made.said[host, name])}" for host, name in made.proven]
    return Told(
        family=made.name,
        folder=str(target),
        extends=made.base.family if made.base else None,
        proven=proven,
        todo=[f"{host}.{name}: {why}" for (host, name), why in made.todo.items()],
        untold=[f"{host}.{name}: no form tried holds" for (host, name), form in made.laws.items() if form is None],
        problems=[f"{problem.where}: {problem.what}" for problem in made.problems],
    )


def _where(said: Any) -> str:
    if said.taken is not None:
        return str(said.taken.at or said.taken.reader)
    return str(said.at.place.at)


def measure(families: Path, out: Path, workers: int, names: Sequence[str], again: bool) -> str:
    """Measure drafts of these model types, or of every one, into the table; and say what it holds in one line."""
    from nnpedia.draft.collecting import collect
    from nnpedia.draft.coverage import summary

    return summary(collect(families, out, workers, names, again))


def compare(families: Path, workers: int, names: Sequence[str]) -> list[str]:
    """A line for each row of the table that comes out otherwise now."""
    from nnpedia.draft.collecting import differing

    return differing(families, names, workers)
