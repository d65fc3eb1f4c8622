"""Beside a spec: what a family needs in other files, told without importing torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nnpedia.badges import Badge, check_badges, load_badges
from nnpedia.errors import SpecError, place
from nnpedia.family import Family
from nnpedia.lineages import Lineage, check_lineages, load_lineages

Files = tuple[dict[str, Badge] | None, Mapping[str, Lineage]]


def files_beside(folder: Path) -> Files:
    """The badges of a families folder, `None` where it explains none and any may be given, and its lineages.

    Raises `SpecError`, with file and line, for a file that does not validate.
    """
    return load_badges(folder) if (folder / "badges.yml").is_file() else None, load_lineages(folder)


def check_beside(families: Sequence[Family], files: Files | None = None) -> None:
    """Raise `SpecError` for a badge that is not explained, a family of no lineage, or one without notes.

    `files` are those of the folder that the families are in, where they have been read.
    """
    for family in families:
        files = files or files_beside(family.folder.parent)
        badges, lineages = files
        if badges is not None:
            check_badges([family], badges)
        check_lineages([family], lineages)
        if not family.notes.is_file():
            raise SpecError("there are no notes here: every family has a notes.md", where=place(family.notes))
