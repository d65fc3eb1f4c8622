"""Described: the family that describes a `model_type`."""

from __future__ import annotations

from pathlib import Path

from nnpedia.errors import UnknownFamily, nearest
from nnpedia.family import Family, family_folders, load_family, present


def find_family(model_type: str, folder: Path | None = None) -> Family:
    """The family of a `model_type`; raises `UnknownFamily` naming the closest and how to add one."""
    from nnpedia.cache import families_folder

    folder = folder or families_folder()
    known = family_folders(folder)
    if model_type in known:
        return present(load_family(known[model_type]))
    close = nearest(model_type, known).removeprefix("; did you mean ").removesuffix("?") or "'llama'"
    raise UnknownFamily(
        f"no family describes the model_type {model_type!r}; the closest is {close}: "
        f"`nnpedia draft {model_type}` drafts it by looking at a live model, or make families/{model_type}/family.yml "
        f"with `extends: {close.strip(chr(39))}` and say what differs (the page Add a family shows how)"
    )
