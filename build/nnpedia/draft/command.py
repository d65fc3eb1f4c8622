"""The command `nnpedia draft`: a draft written into a families folder, and told of line by line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnpedia.errors import SpecError, place

if TYPE_CHECKING:
    from nnpedia.family import Family


@dataclass(frozen=True)
class Told:
    """What a draft is told as: one line for each value, and the counts.

    `copied` is what was put beside it, so that its folder is a families folder.
    """

    family: str
    folder: str
    extends: str | None
    copied: list[str]
    proven: list[str]
    todo: list[str]
    untold: list[str]
    problems: list[str]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def lines(self) -> Iterator[str]:
        yield f"{self.folder}: {self.family}, extending {self.extends or 'nothing'}"
        if self.copied:
            yield f"  copied beside it, for it to stand on: {', '.join(self.copied)}"
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
        raise SpecError(
            f"{subject.model_type} is a family of this folder already: --out DIR drafts it into another folder, "
            "--force writes over this one",
            where=place(target / "family.yml"),
        )
    made = draft(name, families)
    target.mkdir(parents=True, exist_ok=True)
    (target / "family.yml").write_text(HEADING + as_yaml(made.spec), encoding="utf-8")
    (target / "notes.md").write_text(made.notes, encoding="utf-8")
    return _told(made, target, _completed(out, families, made.base))


def _completed(out: Path, families: Path, base: Family | None) -> list[str]:
    """What a families folder lacks for a draft to be read there, copied: the vocabulary, and what the draft extends."""
    extended = [] if base is None else [base.folder, *(spec.parent for spec in base.bases)]
    needed = [families / "vocabulary.yml", families / "badges.yml", *extended]
    copied = []
    for source in needed:
        target = out / source.name
        if target.exists():
            continue
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        copied.append(source.name)
    return copied


def _told(made: Any, target: Path, copied: list[str]) -> Told:
    proven = [f"{host}.{name}  {_where(made.said[host, name])}" for host, name in made.proven]
    return Told(
        family=made.name,
        folder=str(target),
        extends=made.base.family if made.base else None,
        copied=copied,
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
