"""What can be said against specs and notes without loading a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from nnpedia.beside import Files, check_beside, files_beside
from nnpedia.checkpoints import forges, runnable_names
from nnpedia.checkpoints.stated import wrong_keys
from nnpedia.errors import BuildFailure, CheckpointError, NnpediaError, SpecError, place
from nnpedia.family import Family, choose, family_folders, load_family
from nnpedia.fences import check_notes
from nnpedia.terms import unknown_terms


def check_families(folder: Path, names: Sequence[str] | None = None) -> dict[str, list[NnpediaError]]:
    """What is wrong with each of the named families (default: all), every family looked at.

    Raises `UnknownFamily` for a name without a folder.
    """
    known = family_folders(folder)
    files = files_beside(folder)
    return {name: check_family(known[name], files) for name in choose(names, known)}


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


def check_family(folder: Path, files: Files | None = None) -> list[NnpediaError]:
    """What is wrong with one family: its spec or what it needs beside it, else the names it uses, and its notes.

    `files` are what stands beside the specs; left out, badges and lineages are not looked at.
    """
    try:
        family = load_family(folder)
        check_beside([family], files or (None, {}))
        problems = check_notes(family.notes, runnables=runnable_names(family), file=place(family.notes))
        wrong = [] if family.too_new else [*(wrong_keys(family) or _unmade(family)), *unknown_terms(family)]
    except NnpediaError as error:
        return [error]
    return [*wrong, *(BuildFailure(problem.what, where=problem.where) for problem in problems)]


def _unmade(family: Family) -> Iterator[SpecError]:
    """An error for each config of the family that its class refuses as a whole: keys that do not fit one another."""
    from transformers import CONFIG_MAPPING

    from nnpedia.checkpoints import configs, forge

    if family.family not in CONFIG_MAPPING:  # which is said of the family's name
        return
    makers = [partial(configs.reference, family, checkpoint) for checkpoint in family.checkpoints]
    for make in (*makers, *(partial(forge.config, forged) for forged in forges(family).values())):
        try:
            make()
        except CheckpointError as error:
            yield SpecError(error.message, where=error.where)
