"""Produce: what a worker process does, one unit in, its record out as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from nnpedia.errors import CheckpointError, nearest
from nnpedia.family import load_family
from nnpedia.record import Page, Reference, Run

Named = TypeVar("Named")


def produce(folder: str, home: str, family: str, kind: str, name: str, device: str = "cpu") -> str:
    """A unit's record, from the specs of `folder`, with the checkpoints of the cache folder `home`.

    The working folder becomes the one the families lie in, so that a record's `file:line` says
    `families/...` wherever the build was started from.
    """
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    families = Path(folder).resolve()
    os.environ |= {"NNPEDIA_FAMILIES": str(families), "NNPEDIA_HOME": str(Path(home).resolve())}
    os.chdir(families.parent)
    record = page(name) if kind == "page" else of_family(families / family, kind, name, device)
    return record.model_dump_json(indent=1) + "\n"


def of_family(folder: Path, kind: str, name: str, device: str = "cpu") -> Reference | Run:
    """A reference or a run.

    Raises `SpecError` for a name in the spec that nothing has, or a key that the checkpoint's config does not take, and
    `CheckpointError` for a checkpoint that the family does not have.
    """
    from nnpedia import introspect
    from nnpedia.checkpoints import runnables
    from nnpedia.checkpoints.stated import refuse_wrong
    from nnpedia.terms import refuse_strangers

    family = load_family(folder)
    refuse_strangers(family)
    refuse_wrong(family, name)
    if kind == "reference":
        return introspect.reference(family, _named(name, {each.id: each for each in family.checkpoints}))
    return introspect.run(family, _named(name, {each.name: each for each in runnables(family, hub=True)}), device)


def page(file: str) -> Page:
    """What a hand-written page's snippets gave, apart from the prose around them."""
    from nnpedia import introspect
    from nnpedia.fences import fences
    from nnpedia.isolation import run_isolated
    from nnpedia.pagecode import apart, running
    from nnpedia.snippets import PROMPT

    snippets = run_isolated(apart(running(fences(file, file=file))), introspect.page_loader(), PROMPT)
    return Page(file=file, versions=introspect.versions(), snippets=snippets)


def _named(name: str, found: Mapping[str, Named]) -> Named:
    if name not in found:
        raise CheckpointError(f"there is no checkpoint {name!r}{nearest(name, found)}")
    return found[name]
