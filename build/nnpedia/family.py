"""Families: `families/<model_type>/family.yml`, read, merged with its bases and validated.

A spec says only how a family differs from the one it `extends`, and from the vocabulary where it
extends none. What the rest of the package works with is a `Family`: every value and law of the
vocabulary resolved for it, each with the line that says it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nnpedia import formula
from nnpedia.errors import SpecError, nearest, place
from nnpedia.layout import Pattern
from nnpedia.vocabulary import LawSpec, Spec, ValueSpec, Vocabulary, document, load_vocabulary
from nnpedia.yamlfile import Document, read, validate


class PublicCheckpoint(Spec):
    """A checkpoint on the Hub, and where its config comes from.

    `config` holds what differs from the config class's defaults. `origin` is `defaults` (nothing
    more is known), `published` (known publicly, the repository was not opened here) or
    `hub@<revision>`.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
    origin: str = Field(default="defaults", pattern=r"^(defaults|published|hub@[0-9a-f]{40})$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    config: dict[str, Any] = {}
    note: str | None = None


class Wheel(Spec):
    """A file inside a PyPI wheel; several are concatenated in order."""

    project: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]*$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    member: str


class Package(Spec):
    """Trained weights that wheels carry as a GGUF file; `config` states what the file leaves out."""

    name: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$")
    id: str
    wheels: list[Wheel]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    licence: str
    config: dict[str, Any] = {}
    tokenizer: dict[str, Any] = {}


class ValueOverride(BaseModel):
    """What a family says of a value: a place of its own, or why it has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str | None = None
    native: str | None = None
    reader: str | None = None
    absent: str | None = None
    needs: dict[str, list[str]] | None = None
    says: str | None = None

    def over(self, base: ValueSpec) -> ValueSpec:
        """The base value with this override; a new place drops the base's pattern."""
        data = base.model_dump()
        if self.at or self.reader or self.absent:
            data |= {"at": self.at, "reader": self.reader, "absent": self.absent, "native": None}
        if self.absent:
            data["needs"] = {}
        if self.native is not None:
            data["native"] = self.native
        if self.needs is not None:
            data["needs"] = self.needs
        if self.says is not None:
            data["says"] = self.says
        return ValueSpec.model_validate(data)

    @model_validator(mode="after")
    def _one_place(self) -> ValueOverride:
        if sum(said is not None for said in (self.at, self.reader, self.absent)) > 1:
            raise ValueError("say at most one of at, reader and absent")
        return self


class LawOverride(Spec):
    """A law as it reads on this family, or the reason it does not hold (`exception`)."""

    formula: str | None = None
    says: str | None = None
    tolerance: float | None = Field(default=None, ge=0.0, le=64.0)
    exception: str | None = None

    @field_validator("formula")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            formula.parse(text, law=True)
        return text

    def over(self, base: LawSpec) -> LawSpec:
        changes = {key: value for key, value in self.model_dump().items() if value is not None}
        if self.formula is not None and self.exception is None:
            changes["exception"] = None
        return base.model_copy(update=changes)


class FamilySpec(Spec):
    """`family.yml` as written."""

    family: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    subtitle: str
    extends: str | None = None
    architecture: str
    badges: list[str] = []
    parts: list[str] = []
    checkpoints: list[PublicCheckpoint] = Field(min_length=1)
    names: dict[str, dict[str, str]] = {}
    sizes: dict[str, list[str]] = {}
    values: dict[str, dict[str, ValueOverride]] = {}
    laws: dict[str, dict[str, LawOverride]] = {}
    readout: str | None = None
    forge: dict[str, Any] = {}
    packages: list[Package] = []
    about: str = ""


@dataclass(frozen=True)
class Family:
    """A family with its bases merged in.

    Attributes:
        values: By host, every value of the vocabulary as this family has it.
        laws: By host, every law as it reads here.
        sizes: Axis (and `num_layers`) to the formulas that give its length.
        folder: Where `family.yml` and `notes.md` are.
    """

    family: str
    title: str
    subtitle: str
    extends: str | None
    architecture: str
    badges: tuple[str, ...]
    parts: tuple[str, ...]
    checkpoints: tuple[PublicCheckpoint, ...]
    names: dict[str, dict[str, str]]
    sizes: dict[str, list[str]]
    values: dict[str, dict[str, ValueSpec]]
    laws: dict[str, dict[str, LawSpec]]
    readout: str
    forge: dict[str, Any]
    packages: tuple[Package, ...]
    about: str
    folder: Path
    vocabulary: Vocabulary
    lines: dict[tuple[str, ...], str] = field(repr=False)
    bases: tuple[Path, ...] = ()

    @property
    def notes(self) -> Path:
        return self.folder / "notes.md"

    def axes(self, value: ValueSpec) -> tuple[str, ...]:
        return self.vocabulary.axes_of(value.layout)

    def pattern(self, value: ValueSpec) -> Pattern | None:
        return self.vocabulary.pattern(value)

    def where(self, section: str, host: str, name: str) -> str:
        """`file:line` of what says this value (`values`) or law (`laws`)."""
        return self.lines.get((section, host, name), place(self.folder / "family.yml"))


def family_folders(folder: Path) -> dict[str, Path]:
    """The family folders, by name; raises `SpecError` when the families folder is not there."""
    if not folder.is_dir():
        raise SpecError("there is no families folder here", where=place(folder))
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/family.yml"))}


def load_families(folder: Path) -> dict[str, Family]:
    """Every family of a folder, by name; raises `SpecError` for the first thing wrong."""
    return {name: load_family(path) for name, path in family_folders(folder).items()}


@lru_cache(maxsize=256)
def load_family(folder: Path) -> Family:
    """One family with its bases merged in; raises `SpecError` with file and line."""
    chain = _chain(folder)
    vocabulary = load_vocabulary(folder.parent)
    own = chain[0][0]
    lines = _vocabulary_lines(folder.parent, vocabulary)
    values = {host: dict(values) for host, values in vocabulary.values.items()}
    laws = {host: dict(laws) for host, laws in vocabulary.laws.items()}
    names: dict[str, dict[str, str]] = {}
    sizes = {axis: spec.size for axis, spec in vocabulary.axes.items() if spec.size}
    sizes["num_layers"] = vocabulary.num_layers
    readout = vocabulary.readout
    parts = next((spec.parts for spec, _ in chain if spec.parts), list(vocabulary.parts))
    for spec, source in reversed(chain):
        for host, table in spec.names.items():
            _known(host, vocabulary.hosts, source, ("names", host))
            names.setdefault(host, {}).update(table)
        sizes.update(_checked_sizes(spec.sizes, vocabulary, source))
        _merge_values(values, spec, vocabulary, source, lines)
        _merge_laws(laws, spec, source, lines)
        readout = spec.readout or readout
    _drop_parts(values, parts, vocabulary, chain[0][1])
    return Family(
        family=own.family, title=own.title, subtitle=own.subtitle, extends=own.extends, architecture=own.architecture,
        badges=tuple(own.badges), parts=tuple(parts), checkpoints=tuple(own.checkpoints), names=names, sizes=sizes,
        values=values, laws=laws, readout=readout, forge=own.forge, packages=tuple(own.packages), about=own.about,
        folder=folder, vocabulary=vocabulary, lines=lines, bases=tuple(source.path for _, source in chain[1:]),
    )  # fmt: skip


def _chain(folder: Path) -> list[tuple[FamilySpec, Document]]:
    """The family and its bases, nearest first."""
    chain: list[tuple[FamilySpec, Document]] = []
    current: Path | None = folder
    while current is not None:
        source = read(current / "family.yml")
        spec = validate(FamilySpec, source)
        if spec.family != current.name:
            raise SpecError(f"the folder is {current.name!r} but family says {spec.family!r}", where=source.where("family"))
        chain.append((spec, source))
        current = None
        if spec.extends is not None:
            known = family_folders(folder.parent)
            _known(spec.extends, known, source, ("extends",))
            if any(spec.extends == seen.family for seen, _ in chain):
                raise SpecError(f"{spec.extends!r} is extended in a circle", where=source.where("extends"))
            current = known[spec.extends]
    return chain


def _merge_values(
    values: dict[str, dict[str, ValueSpec]],
    spec: FamilySpec,
    vocabulary: Vocabulary,
    source: Document,
    lines: dict[tuple[str, ...], str],
) -> None:
    for host, table in spec.values.items():
        _known(host, values, source, ("values", host))
        for name, override in table.items():
            _known(name, values[host], source, ("values", host, name))
            where = source.where("values", host, name)
            try:
                values[host][name] = override.over(values[host][name])
                vocabulary.pattern(values[host][name])
            except SpecError as error:
                raise type(error)(error.message, where=where) from None
            except ValueError as error:
                raise SpecError(_first_line(error), where=where) from None
            lines["values", host, name] = where


def _merge_laws(
    laws: dict[str, dict[str, LawSpec]], spec: FamilySpec, source: Document, lines: dict[tuple[str, ...], str]
) -> None:
    for host, table in spec.laws.items():
        _known(host, laws, source, ("laws", host))
        for name, override in table.items():
            _known(name, laws[host], source, ("laws", host, name))
            laws[host][name] = override.over(laws[host][name])
            lines["laws", host, name] = source.where("laws", host, name)


def _drop_parts(
    values: dict[str, dict[str, ValueSpec]], parts: list[str], vocabulary: Vocabulary, source: Document
) -> None:
    """Mark the values of parts the family does not have; what it says of one itself stands."""
    for part in parts:
        _known(part, vocabulary.parts, source, ("parts",))
    for host, table in values.items():
        for name, value in table.items():
            if value.part is not None and value.part not in parts and value == vocabulary.values[host][name]:
                reason = vocabulary.parts[value.part].absent
                table[name] = ValueOverride(absent=reason).over(value)


def _checked_sizes(sizes: dict[str, list[str]], vocabulary: Vocabulary, source: Document) -> dict[str, list[str]]:
    for axis, texts in sizes.items():
        _known(axis, [*vocabulary.axes, "num_layers"], source, ("sizes", axis))
        for index, text in enumerate(texts):
            try:
                formula.parse(text)
            except SpecError as error:
                raise SpecError(error.message, where=source.where("sizes", axis, index)) from None
    return sizes


def _vocabulary_lines(folder: Path, vocabulary: Vocabulary) -> dict[tuple[str, ...], str]:
    source = document(folder)
    tables: dict[str, Any] = {"values": vocabulary.values, "laws": vocabulary.laws}
    return {
        (section, host, name): source.where(section, host, name)
        for section, hosts in tables.items()
        for host, table in hosts.items()
        for name in table
    }


def _known(word: str, candidates: Any, source: Document, keys: tuple[str, ...]) -> None:
    if word not in candidates:
        hint = nearest(word, candidates) or f"; there is {', '.join(sorted(candidates))}"
        raise SpecError(f"{'.'.join(keys[:-1]) or keys[0]}: there is no {word!r}{hint}", where=source.where(*keys))


def _first_line(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    return str(errors()[0]["msg"]).removeprefix("Value error, ") if errors else str(error)
