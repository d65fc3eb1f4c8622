"""What can be said against specs and notes without loading a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nnpedia.badges import Badge, check_badges, load_badges
from nnpedia.checkpoints import runnable_names
from nnpedia.checkpoints.stated import unknown_keys
from nnpedia.errors import BuildFailure, NnpediaError, SpecError, place
from nnpedia.family import family_folders, load_family
from nnpedia.fences import check_notes
from nnpedia.lineages import Lineage, check_lineages, load_lineages
from nnpedia.terms import unknown_terms
from nnpedia.work import choose


def check_families(folder: Path, names: Sequence[str] | None = None) -> dict[str, list[NnpediaError]]:
    """What is wrong with each of the named families (default: all), every family looked at.

    Raises `UnknownFamily` for a name without a folder.
    """
    known = family_folders(folder)
    badges, lineages = _badges(folder), load_lineages(folder)
    return {name: check_family(known[name], badges, lineages) for name in choose(names, known)}


def unfinished(folder: Path, names: Sequence[str]) -> list[str]:
    """A line for each value of these families that is not worked out yet; drafts have them."""
    known = family_folders(folder)
    return [
        f"{family.where('values', host, name)}: {name} is not finished: {spec.todo}"
        for family in (load_family(known[each]) for each in names)
        for host, table in family.values.items()
        for name, spec in table.items()
        if spec.todo is not None
    ]


def check_family(
    folder: Path, badges: dict[str, Badge] | None = None, lineages: Mapping[str, Lineage] | None = None
) -> list[NnpediaError]:
    """What is wrong with one family: its spec, badges or lineage, else the names it uses, and its notes."""
    try:
        family = load_family(folder)
        if badges is not None:
            check_badges([family], badges)
        check_lineages([family], lineages or {})
        if not family.notes.is_file():
            raise SpecError("there are no notes here: every family has a notes.md", where=place(family.notes))
        problems = check_notes(family.notes, runnables=runnable_names(family), file=place(family.notes))
        unknown = [] if family.too_new else [*unknown_keys(family), *unknown_terms(family)]
    except NnpediaError as error:
        return [error]
    return [*unknown, *(BuildFailure(problem.what, where=problem.where) for problem in problems)]


def _badges(folder: Path) -> dict[str, Badge] | None:
    """The badges there are; None where the folder explains none, and any may be given."""
    return load_badges(folder) if (folder / "badges.yml").is_file() else None
