"""Lineages: `families/lineages.yml`, which families are relatives, and the hue of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, RootModel

from nnpedia.errors import SpecError, place
from nnpedia.family import Family
from nnpedia.yamlfile import read, validate

FILE = "lineages.yml"


class Lineage(BaseModel):
    """Relatives: `says` is what they have in common, `light` and `dark` their hue in the two schemes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    says: str
    light: str = Field(pattern=r"^#[0-9a-f]{6}$")
    dark: str = Field(pattern=r"^#[0-9a-f]{6}$")
    families: tuple[str, ...] = Field(min_length=1)


class _Lineages(RootModel[dict[str, Lineage]]):
    pass


@dataclass(frozen=True)
class Kin:
    """The lineage of one family: its id, which styles know it by, and what it is."""

    id: str
    lineage: Lineage

    @property
    def title(self) -> str:
        return self.lineage.title


def load_lineages(families: Path) -> dict[str, Lineage]:
    """`lineages.yml` of the families folder, in its order; empty where there is none.

    Raises `SpecError`, with file and line, for a lineage that does not validate, or names a family
    of another one. A family whose folder is gone may still be named.
    """
    if not (families / FILE).is_file():
        return {}
    document = read(families / FILE)
    lineages = validate(_Lineages, document).root
    seen: dict[str, str] = {}
    for name, lineage in lineages.items():
        for index, family in enumerate(lineage.families):
            if family in seen:
                where = document.where(name, "families", index)
                raise SpecError(f"{family} is of the lineage {seen[family]} already", where=where)
            seen[family] = name
    return lineages


def kin_of(family: Family, lineages: Mapping[str, Lineage]) -> Kin | None:
    """The lineage that names the family, or else what it extends, nearest first; None where none does."""
    for each in (family.family, *(base.parent.name for base in family.bases)):
        for name, lineage in lineages.items():
            if each in lineage.families:
                return Kin(name, lineage)
    return None


def check_lineages(families: Iterable[Family], lineages: Mapping[str, Lineage]) -> None:
    """Raises `SpecError` for a family of no lineage, where there are lineages at all."""
    for family in families:
        if lineages and kin_of(family, lineages) is None:
            raise SpecError(
                f"no lineage of {FILE} names {family.family} or what it extends; add it to one",
                where=place(family.folder / "family.yml"),
            )


def style(lineages: Mapping[str, Lineage]) -> str:
    """The style sheet that gives what carries `data-lineage` its hue, as `--nn-lineage`."""
    light = [f'[data-lineage="{name}"] {{ --nn-lineage: {lineage.light}; }}' for name, lineage in lineages.items()]
    dark = [
        f'[data-md-color-scheme="slate"] [data-lineage="{name}"] {{ --nn-lineage: {lineage.dark}; }}'
        for name, lineage in lineages.items()
    ]
    head = "/* Made from families/lineages.yml; paper is light. */"
    return "\n".join((head, *light, "@media screen {", *dark, "}", ""))
