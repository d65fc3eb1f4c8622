"""The vocabulary: axes, layouts, hosts, values and laws, read from `families/vocabulary.yml`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pydantic import model_validator

from nnpedia.entryspec import LawSpec, Spec, ValueSpec, parsed
from nnpedia.layout import Pattern, parse_pattern
from nnpedia.versions import MOVES, Span, Told, check_spans
from nnpedia.yamlfile import Document, read, validate


class Axis(Spec):
    """A dimension; `size` lists formulas over `module` and `config`, the first that answers wins."""

    says: str
    size: list[str] = []
    part: str | None = None


class Host(Spec):
    path: str
    says: str


class Part(Spec):
    """A group of values that a family may lack as a whole, and the reason it gives.

    `without` is the reason instead where another part, by name, is not there either.
    """

    says: str
    absent: str
    without: dict[str, str] = {}

    def reason(self, parts: Iterable[str]) -> str:
        """Why a family that has these parts lacks this one."""
        return next((text for other, text in self.without.items() if other not in parts), self.absent)


class Vocabulary(Spec):
    """`vocabulary.yml` as written; `versions` says of packages which releases all specs are told for."""

    versions: dict[str, Told] = {}
    axes: dict[str, Axis]
    num_layers: list[str]
    layouts: dict[str, list[str]]
    hosts: dict[str, Host]
    parts: dict[str, Part]
    values: dict[str, dict[str, ValueSpec]]
    laws: dict[str, dict[str, LawSpec]]
    readout: str

    def axes_of(self, layout: str) -> tuple[str, ...]:
        return tuple(self.layouts[layout])

    def pattern(self, value: ValueSpec) -> Pattern | None:
        """The native pattern of a value, checked against its layout; `None` when it has none."""
        if value.decoded is not None:
            self.pattern(value.decoded)
        for entry in value.moved:
            self.pattern(entry.over(value).model_copy(update={"moved": []}))
        return None if value.native is None else parse_pattern(value.native, self.axes_of(value.layout))

    def check_moved(self, spans: Iterable[Span]) -> None:
        """Raise `ValueError` where entries of `moved` contradict each other, or no release that is told of has one."""
        check_spans(spans, self.versions.get(MOVES))

    @model_validator(mode="after")
    def _coherent(self) -> Vocabulary:
        for layout, axes in self.layouts.items():
            if unknown := set(axes) - set(self.axes):
                raise ValueError(f"the layout {layout} names axes that are not there: {', '.join(sorted(unknown))}")
        for host, values in self.values.items():
            if host not in self.hosts:
                raise ValueError(f"values of a host that is not there: {host}")
            for name, value in values.items():
                if value.layout not in self.layouts:
                    raise ValueError(f"{host}.{name} has the layout {value.layout}, which is not there")
                if unknown := set(value.any_of) - set(self.parts):
                    raise ValueError(f"{host}.{name} belongs to a part that is not there: {', '.join(sorted(unknown))}")
                if value.indexes is not None and value.indexes not in self.axes:
                    raise ValueError(f"{host}.{name} indexes an axis that is not there: {value.indexes}")
                parsed(lambda _, value=value: self.pattern(value), name)
                self.check_moved(value.moved)
        for laws in self.laws.values():
            for law in laws.values():
                self.check_moved(law.moved)
        return self


def document(folder: Path) -> Document:
    return read(folder / "vocabulary.yml")


@lru_cache(maxsize=8)
def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a families folder; raises `SpecError` with file and line."""
    return validate(Vocabulary, document(folder))
