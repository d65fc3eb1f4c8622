"""What can be said against specs and notes without loading a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from nnpedia.errors import BuildFailure, NnpediaError, SpecError, nearest, place
from nnpedia.family import Family, family_folders, load_family
from nnpedia.fences import check_notes
from nnpedia.work import choose, runnable_names
from nnpedia.yamlfile import read


def check_families(folder: Path, names: Sequence[str] | None = None) -> dict[str, list[NnpediaError]]:
    """What is wrong with each of the named families (default: all), every family looked at.

    Raises `UnknownFamily` for a name without a folder.
    """
    known = family_folders(folder)
    badges = _badges(folder)
    return {name: check_family(known[name], badges) for name in choose(names, known)}


def check_family(folder: Path, badges: Collection[str] | None = None) -> list[NnpediaError]:
    """What is wrong with one family: its spec, else its badges and its notes."""
    try:
        family = load_family(folder)
    except NnpediaError as error:
        return [error]
    found: list[NnpediaError] = list(_unknown_badges(family, badges)) if badges is not None else []
    if not family.notes.is_file():
        return [*found, SpecError("there are no notes here: every family has a notes.md", where=place(family.notes))]
    try:
        problems = check_notes(family.notes, runnables=runnable_names(family), file=place(family.notes))
    except NnpediaError as error:
        return [*found, error]
    return [*found, *(BuildFailure(problem.what, where=problem.where) for problem in problems)]


def _badges(folder: Path) -> Collection[str] | None:
    """The badges there are; None where the folder explains none, and any may be given."""
    if not (folder / "badges.yml").is_file():
        return None
    data = read(folder / "badges.yml").data
    badges = data.get("badges", data) if isinstance(data, dict) else {}
    return set(badges) if isinstance(badges, dict) else set()


def _unknown_badges(family: Family, badges: Collection[str]) -> list[SpecError]:
    source = read(family.folder / "family.yml")
    return [
        SpecError(f"badges.yml has no badge {name!r}{nearest(name, badges)}", where=source.where("badges", number))
        for number, name in enumerate(family.badges)
        if name not in badges
    ]
