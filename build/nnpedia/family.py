"""Families: `families/<model_type>/family.yml`, read, merged with its bases and validated.

A spec says only how a family differs from the one it `extends`, and from the vocabulary where it
extends none. What the rest of the package works with is a `Family`: every value and law of the
vocabulary resolved for it, each with the line that says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from nnpedia import formula
from nnpedia.entryspec import LawSpec, ValueOverride, ValueSpec
from nnpedia.errors import SpecError, UnknownFamily, nearest, place
from nnpedia.familyspec import Differences, FamilySpec, Lender, Package, PublicCheckpoint, Variant
from nnpedia.layout import Pattern
from nnpedia.versions import MOVES, Span, installed, release
from nnpedia.vocabulary import Vocabulary, document, load_vocabulary
from nnpedia.yamlfile import Document, read, validate


@dataclass(frozen=True)
class Family:
    """A family with its bases merged in.

    Attributes:
        values: By host, every value of the vocabulary as this family has it.
        laws: By host, every law as it reads here.
        sizes: Axis (and `num_layers`) to the formulas that give its length.
        virtual: Hosts that are no module of their own, to the host whose module they are told from.
        variant: The names of the variants merged in.
        folder: Where `family.yml` and `notes.md` are.
        since: The first release of transformers that has it, where not all that are supported do.
        lender: Which block's keys and values a block without its own attends with, where some have none.
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
    virtual: dict[str, str]
    variants: dict[str, Variant]
    variant: tuple[str, ...]
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
    since: str | None = None
    lender: Lender | None = None

    @property
    def too_new(self) -> str | None:
        """Why the installed transformers cannot have this family, as the end of a sentence; `None` where it can."""
        here = installed(MOVES)
        if self.since is None or release(self.since) <= release(here):
            return None
        return f"needs {MOVES} {self.since} or newer, and {here} is installed"

    @property
    def notes(self) -> Path:
        return self.folder / "notes.md"

    def axes(self, value: ValueSpec) -> tuple[str, ...]:
        return self.vocabulary.axes_of(value.layout)

    def pattern(self, value: ValueSpec) -> Pattern | None:
        return self.vocabulary.pattern(value)

    def where(self, section: str, host: str, name: str) -> str:
        """`file:line` of what says this value (`values`), law (`laws`) or, with no host, checkpoint (`checkpoints`)."""
        return self.lines.get((section, host, name), place(self.folder / "family.yml"))


def family_folders(folder: Path) -> dict[str, Path]:
    """The family folders, by name; raises `SpecError` when the families folder is not there."""
    if not folder.is_dir():
        raise SpecError("there is no families folder here", where=place(folder))
    return {path.parent.name: path.parent for path in sorted(folder.glob("*/family.yml"))}


def choose(names: Sequence[str] | None, known: Mapping[str, Path]) -> list[str]:
    """The named families, or all; raises `UnknownFamily` for one that has no folder."""
    for name in names or ():
        if name not in known:
            hint = nearest(name, known) or f"; there is {', '.join(sorted(known)) or 'none'}"
            raise UnknownFamily(f"there is no family {name!r}{hint}")
    return list(dict.fromkeys(names)) if names else list(known)


def load_families(folder: Path) -> dict[str, Family]:
    """Every family of a folder, by name; raises `SpecError` for the first thing wrong."""
    return {name: load_family(path) for name, path in family_folders(folder).items()}


@lru_cache(maxsize=256)
def load_family(folder: Path, variant: tuple[str, ...] = (), on: str | None = None) -> Family:
    """One family with its bases and variants merged in, as the release `on` of transformers has it.

    Left out, that is the installed release. Raises `SpecError` with file and line.
    """
    chain = _chain(folder)
    vocabulary = load_vocabulary(folder.parent)
    own, source = chain[0]
    merged = _Merged(vocabulary, folder.parent)
    for spec, where in reversed(chain):
        merged.add(spec, where, ())
    for name in variant:
        merged.add(own.variants[name], source, ("variants", name))
    if own.since is not None:
        _check_since(own.since, vocabulary, source)
    merged.drop_parts()
    merged.settle(on or installed(MOVES))
    for index, checkpoint in enumerate(own.checkpoints):
        merged.lines["checkpoints", "", checkpoint.id] = source.where("checkpoints", index)
    return Family(
        family=own.family, title=own.title, subtitle=own.subtitle, extends=own.extends, architecture=own.architecture,
        badges=tuple(own.badges), parts=tuple(merged.parts), checkpoints=tuple(own.checkpoints), names=merged.names,
        sizes=merged.sizes, virtual=merged.virtual, variants=own.variants, variant=variant, values=merged.values,
        laws=merged.laws, readout=merged.readout, forge=own.forge, packages=tuple(own.packages), about=own.about,
        folder=folder, vocabulary=vocabulary, lines=merged.lines, bases=tuple(base.path for _, base in chain[1:]),
        since=own.since, lender=merged.lender,
    )  # fmt: skip


def read_anew() -> None:
    """Forget the specs read so far: a process that outlives an edit, such as `make serve`, reads them again."""
    load_family.cache_clear()
    load_vocabulary.cache_clear()


def for_config(family: Family, config: Any) -> Family:
    """The family as a checkpoint with this config has it: its matching variants merged in."""
    matching = tuple(name for name, variant in family.variants.items() if variant.matches(config))
    return load_family(family.folder, matching) if matching != family.variant else family


def _chain(folder: Path) -> list[tuple[FamilySpec, Document]]:
    """The family and its bases, nearest first."""
    chain: list[tuple[FamilySpec, Document]] = []
    current: Path | None = folder
    while current is not None:
        source = read(current / "family.yml")
        spec = validate(FamilySpec, source)
        if spec.family != current.name:
            raise SpecError(
                f"the folder is {current.name!r} but family says {spec.family!r}", where=source.where("family")
            )
        chain.append((spec, source))
        current = None
        if spec.extends is not None:
            known = family_folders(folder.parent)
            _known(spec.extends, known, source, ("extends",))
            if any(spec.extends == seen.family for seen, _ in chain):
                raise SpecError(f"{spec.extends!r} is extended in a circle", where=source.where("extends"))
            current = known[spec.extends]
    return chain


class _Merged:
    """The vocabulary with one spec after another laid over it, each entry's line kept."""

    def __init__(self, vocabulary: Vocabulary, folder: Path) -> None:
        self.vocabulary = vocabulary
        self.lines = _vocabulary_lines(folder, vocabulary)
        self.values = {host: dict(values) for host, values in vocabulary.values.items()}
        self.laws = {host: dict(laws) for host, laws in vocabulary.laws.items()}
        self.names: dict[str, dict[str, str]] = {}
        self.sizes = {axis: list(spec.size) for axis, spec in vocabulary.axes.items() if spec.size}
        self.sizes["num_layers"] = vocabulary.num_layers
        self.virtual: dict[str, str] = {}
        self.parts = list(vocabulary.parts)
        self.readout = vocabulary.readout
        self.lender: Lender | None = None

    def add(self, spec: Differences, source: Document, under: tuple[str, ...]) -> None:
        """Lay a spec over what is there; `under` is where in its file it stands."""
        for part in spec.parts:
            _known(part, self.vocabulary.parts, source, (*under, "parts"))
        self.parts = spec.parts or self.parts
        for host, table in spec.names.items():
            _known(host, self.vocabulary.hosts, source, (*under, "names", host))
            self.names.setdefault(host, {}).update(table)
        for host, origin in spec.virtual.items():
            _known(host, self.vocabulary.hosts, source, (*under, "virtual", host))
            _known(origin, ["layers"], source, (*under, "virtual", host))
        self.virtual.update(spec.virtual)
        for axis, texts in spec.sizes.items():
            _known(axis, [*self.vocabulary.axes, "num_layers"], source, (*under, "sizes", axis))
            for index, text in enumerate(texts):
                _formula(text, source, (*under, "sizes", axis, index))
        self.sizes.update(spec.sizes)
        if spec.readout is not None:
            _formula(spec.readout, source, (*under, "readout"))
            self.readout = spec.readout
            self.lines["readout", "", ""] = source.where(*under, "readout")
        if "lender" in spec.model_fields_set:
            for key, text in spec.lender.model_dump().items() if spec.lender else ():
                _formula(text, source, (*under, "lender", key))
            self.lender = spec.lender
        self._add_values(spec, source, under)
        self._reorder(spec, source, under)
        for host, laws in spec.laws.items():
            _known(host, self.laws, source, (*under, "laws", host))
            for name, law in laws.items():
                _known(name, self.laws[host], source, (*under, "laws", host, name))
                where = self.lines["laws", host, name] = source.where(*under, "laws", host, name)
                self.laws[host][name] = law.over(self.laws[host][name])
                try:
                    self.vocabulary.check_moved(self.laws[host][name].moved)
                except ValueError as error:
                    raise SpecError(_first_line(error), where=where) from None

    def _add_values(self, spec: Differences, source: Document, under: tuple[str, ...]) -> None:
        for host, table in spec.values.items():
            _known(host, self.values, source, (*under, "values", host))
            for name, override in table.items():
                _known(name, self.values[host], source, (*under, "values", host, name))
                where = source.where(*under, "values", host, name)
                if override.layout is not None:
                    _known(override.layout, self.vocabulary.layouts, source, (*under, "values", host, name, "layout"))
                try:
                    self.values[host][name] = override.over(self.values[host][name])
                    self.vocabulary.pattern(self.values[host][name])
                    self.vocabulary.check_moved(self.values[host][name].moved)
                except SpecError as error:
                    raise type(error)(error.message, where=where) from None
                except ValueError as error:
                    raise SpecError(_first_line(error), where=where) from None
                self.lines["values", host, name] = where

    def _reorder(self, spec: Differences, source: Document, under: tuple[str, ...]) -> None:
        """Put the listed values of a host in the listed order, in the places that they take up together."""
        for host, names in spec.order.items():
            _known(host, self.values, source, (*under, "order", host))
            self.lines["order", host, ""] = source.where(*under, "order", host)
            for index, name in enumerate(names):
                _known(name, self.values[host], source, (*under, "order", host))
                if name in names[:index]:
                    raise SpecError(f"order: {name} is listed twice", where=source.where(*under, "order", host, index))
            listed, table = iter(names), self.values[host]
            self.values[host] = {name: table[name] for name in (next(listed) if at in names else at for at in table)}

    def drop_parts(self) -> None:
        """Mark the values of parts the family does not have; what it says of one itself stands."""
        for axis, spec in self.vocabulary.axes.items():
            if spec.part is not None and spec.part not in self.parts:
                self.sizes.pop(axis, None)
        for host, table in self.values.items():
            for name, value in table.items():
                base = self.vocabulary.values[host][name]
                if value.any_of and not set(value.any_of) & set(self.parts) and value == base:
                    reasons = [self.vocabulary.parts[part].reason(self.parts) for part in value.any_of]
                    table[name] = ValueOverride(absent="; ".join(dict.fromkeys(reasons))).over(value)

    def settle(self, version: str) -> None:
        """Put what moved where this release of transformers has it."""
        self.values = {
            host: {name: value.on(version) for name, value in table.items()} for host, table in self.values.items()
        }
        self.laws = {host: {name: law.on(version) for name, law in table.items()} for host, table in self.laws.items()}


def _check_since(since: str, vocabulary: Vocabulary, source: Document) -> None:
    """Raise `SpecError` where a family says it is younger than a range that begins with it, or ends before it."""
    told = vocabulary.versions.get(MOVES)
    if told is not None and not (Span(until=since).meets(told) and told.holds(since)):
        raise SpecError(
            f"since {since} is not within the releases of {MOVES} that the specs are told for ({told.words()}); "
            "a family that all of them have says nothing of it",
            where=source.where("since"),
        )


def present(family: Family) -> Family:
    """The family, where the installed transformers has it; raises `UnknownFamily` in one line where it is too old."""
    if family.too_new:
        raise UnknownFamily(f"the family {family.family} {family.too_new}", where=place(family.folder / "family.yml"))
    return family


def _formula(text: str, source: Document, keys: tuple[str | int, ...]) -> None:
    try:
        formula.parse(text)
    except SpecError as error:
        raise SpecError(error.message, where=source.where(*keys)) from None


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
