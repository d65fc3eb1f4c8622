"""Badges: `families/badges.yml`, what the badges of families mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel

from nnpedia.errors import SpecError, nearest
from nnpedia.family import Family
from nnpedia.yamlfile import read, validate


class Badge(BaseModel):
    """`title` is on the badge, `says` explains it in a sentence, `more` (Markdown) on its page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    says: str
    more: str


class _Badges(RootModel[dict[str, Badge]]):
    pass


def load_badges(families: Path) -> dict[str, Badge]:
    """`badges.yml` of the families folder, in its order; raises `SpecError` with file and line."""
    return validate(_Badges, read(families / "badges.yml")).root


def check_badges(families: Iterable[Family], badges: dict[str, Badge]) -> None:
    """Raises `SpecError` for a family with a badge that `badges.yml` does not explain."""
    for family in families:
        for index, name in enumerate(family.badges):
            if name not in badges:
                where = read(family.folder / "family.yml").where("badges", index)
                raise SpecError(f"badges.yml has no badge {name!r}{nearest(name, badges)}", where=where)
