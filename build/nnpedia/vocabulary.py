"""The vocabulary: axes, layouts, hosts, values and laws, read from `families/vocabulary.yml`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nnpedia import address, formula
from nnpedia.errors import SpecError
from nnpedia.layout import Pattern, parse_pattern
from nnpedia.yamlfile import Document, read, validate


def parsed(parse: Callable[..., Any], text: str, **options: Any) -> Any:
    """What `parse` makes of a text inside a spec; pydantic turns a `ValueError` into the key's own line."""
    try:
        return parse(text, **options)
    except SpecError as error:
        raise ValueError(error.message) from None


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


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


class DecodePlace(Spec):
    """Where a value is read in a call of one token that continues a cache, when another kernel runs there."""

    at: str | None = None
    native: str | None = None
    reader: str | None = None

    @model_validator(mode="after")
    def _says_where(self) -> DecodePlace:
        if (self.at is None) == (self.reader is None):
            raise ValueError("say exactly one of at and reader")
        if self.at is not None:
            parsed(address.parse, self.at)
        return self


class ValueSpec(Spec):
    """A value: what it is and where it is read.

    Exactly one of `at` (an address), `reader` (a named Python reader) and `absent` (the reason a
    family has no such value) says where. `scale` is a formula over `module` and `config`: the value
    is what the address holds times that number. `copy` marks a tensor the model writes over later.
    An assigned value `reaches` the logits of the same call, or only the cache the next call starts from.
    `decode` is its place in a call of one token that continues a cache, where that is another one; `by_class`
    gives its address on hosts of another native class, where blocks of one family are classes of their own.
    """

    layout: str
    says: str
    part: str | list[str] | None = None
    at: str | None = None
    native: str | None = None
    scale: str | None = None
    copies: bool = Field(default=False, alias="copy")
    reader: str | None = None
    absent: str | None = None
    needs: dict[str, list[str]] = {}
    reaches: Literal["logits", "cache"] = "logits"
    decode: DecodePlace | None = None
    by_class: dict[str, str] = {}

    @property
    def decoded(self) -> ValueSpec | None:
        """The value as it is read in a decode step; `None` where that is the place of every call."""
        if self.decode is None:
            return None
        place = {
            **self.decode.model_dump(),
            "decode": None,
            "by_class": {},
            "absent": None,
            "scale": None,
            "copies": False,
        }
        return self.model_copy(update=place)

    @property
    def any_of(self) -> list[str]:
        """The parts of which the family must have one; empty when every family has the value."""
        if self.part is None:
            return []
        return [self.part] if isinstance(self.part, str) else self.part

    @field_validator("at")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            parsed(address.parse, text)
        return text

    @model_validator(mode="after")
    def _says_where(self) -> ValueSpec:
        if sum(place is not None for place in (self.at, self.reader, self.absent)) != 1:
            raise ValueError("say exactly one of at, reader and absent")
        if (self.native or self.scale or self.copies) and not self.at:
            raise ValueError("native, scale and copy go with an address")
        if self.scale is not None:
            parsed(formula.parse, self.scale)
        for text in self.by_class.values():
            parsed(address.parse, text)
        return self


class LawSpec(Spec):
    """An identity; `tolerance` is in epsilons of the dtype times the largest magnitude compared."""

    says: str
    formula: str
    tolerance: float = Field(default=0.0, ge=0.0, le=64.0)
    exception: str | None = None

    @field_validator("formula")
    @classmethod
    def _parses(cls, text: str) -> str:
        parsed(formula.parse, text, law=True)
        return text


class Vocabulary(Spec):
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
        return None if value.native is None else parse_pattern(value.native, self.axes_of(value.layout))

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
                parsed(lambda _, value=value: self.pattern(value), name)
        return self


def document(folder: Path) -> Document:
    return read(folder / "vocabulary.yml")


@lru_cache(maxsize=8)
def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a families folder; raises `SpecError` with file and line."""
    return validate(Vocabulary, document(folder))
