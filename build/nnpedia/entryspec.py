"""What a spec says of one value or one law: the vocabulary's entry, a family's override, a version's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from nnpedia import address, formula
from nnpedia.errors import SpecError
from nnpedia.versions import Span, check_spans


def parsed(parse: Callable[..., Any], text: str, **options: Any) -> Any:
    """What `parse` makes of a text inside a spec; pydantic turns a `ValueError` into the key's own line."""
    try:
        return parse(text, **options)
    except SpecError as error:
        raise ValueError(error.message) from None


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


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

    Exactly one of `at` (an address), `reader` (a named Python reader, which may work from the place `of`) and
    `absent` (the reason a family has no such value) says where. `scale` is a formula over `module` and `config`:
    the value is what the address holds times that number. `copy` marks a tensor the model writes over later.
    An assigned value `reaches` the logits of the same call, or only the cache the next call starts from.
    `indexes` is the axis that a value of whole numbers counts along, which none of them may go beyond.
    `decode` is its place in a call of one token that continues a cache, where that is another one; `by_class`
    gives its address on hosts of another native class, where blocks of one family are classes of their own.
    `moved` says what differs on other releases of transformers than the one the specs were measured with. A value
    with a `todo` is absent because it is not worked out yet, and why.
    """

    layout: str
    says: str
    part: str | list[str] | None = None
    at: str | None = None
    native: str | None = None
    scale: str | None = None
    copies: bool = Field(default=False, alias="copy")
    reader: str | None = None
    of: str | None = None
    absent: str | None = None
    todo: str | None = None
    needs: dict[str, list[str]] = {}
    reaches: Literal["logits", "cache"] = "logits"
    indexes: str | None = None
    decode: DecodePlace | None = None
    by_class: dict[str, str] = {}
    moved: list[MovedValue] = []

    @property
    def decoded(self) -> ValueSpec | None:
        """The value as it is read in a decode step; `None` where that is the place of every call."""
        if self.decode is None:
            return None
        place = {
            **self.decode.model_dump(),
            "decode": None,
            "by_class": {},
            "moved": [],
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

    @field_validator("at", "of")
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
        if self.of is not None and self.reader is None:
            raise ValueError("of, the place that a reader works from, goes with a reader")
        if self.scale is not None:
            parsed(formula.parse, self.scale)
        for text in self.by_class.values():
            parsed(address.parse, text)
        check_spans(self.moved)
        return self

    def on(self, version: str) -> ValueSpec:
        """The value as a release of transformers has it; `moved` stays, for pages that tell of it."""
        here = next((entry for entry in self.moved if entry.holds(version)), None)
        return self if here is None else here.over(self).model_copy(update={"moved": self.moved})


class LawSpec(Spec):
    """An identity; `tolerance` is in epsilons of the dtype times the largest magnitude compared."""

    says: str
    formula: str
    tolerance: float = Field(default=0.0, ge=0.0, le=64.0)
    exception: str | None = None
    moved: list[MovedLaw] = []

    @field_validator("formula")
    @classmethod
    def _parses(cls, text: str) -> str:
        parsed(formula.parse, text, law=True)
        return text

    @model_validator(mode="after")
    def _apart(self) -> LawSpec:
        check_spans(self.moved)
        return self

    def on(self, version: str) -> LawSpec:
        """The law as it reads on a release of transformers."""
        here = next((entry for entry in self.moved if entry.holds(version)), None)
        return self if here is None else here.over(self)


class ValueChange(Spec):
    """What is said of a value over what was said before: a place of its own, or why there is none, or none yet."""

    at: str | None = None
    native: str | None = None
    scale: str | None = None
    copies: bool | None = Field(default=None, alias="copy")
    reader: str | None = None
    of: str | None = None
    absent: str | None = None
    todo: str | None = None
    needs: dict[str, list[str]] | None = None
    says: str | None = None
    layout: str | None = None
    decode: DecodePlace | None = None
    by_class: dict[str, str] | None = None

    def over(self, base: ValueSpec) -> ValueSpec:
        """The base value with this override; a new place drops the base's pattern, and where it stood before."""
        data = base.model_dump()
        absent = self.absent or (self.todo and f"not worked out yet: {self.todo}")
        if self.at or self.reader or absent:
            data |= {"at": self.at, "reader": self.reader, "absent": absent, "todo": self.todo}
            data |= {"native": None, "scale": None, "copies": False, "decode": None, "by_class": {}}
            data |= {"of": None, "moved": []}
        if absent:
            data["needs"] = {}
        for key in ("native", "scale", "copies", "of", "needs", "says", "layout", "decode", "by_class"):
            if getattr(self, key) is not None:
                data[key] = getattr(self, key)
        return ValueSpec.model_validate(data)

    @model_validator(mode="after")
    def _one_place(self) -> ValueChange:
        if sum(said is not None for said in (self.at, self.reader, self.absent, self.todo)) > 1:
            raise ValueError("say at most one of at, reader, absent and todo")
        return self


class LawChange(Spec):
    """A law as it reads from here on, or the reason it does not hold (`exception`)."""

    formula: str | None = None
    says: str | None = None
    tolerance: float | None = Field(default=None, ge=0.0, le=64.0)
    exception: str | None = None

    @field_validator("formula")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            parsed(formula.parse, text, law=True)
        return text

    def over(self, base: LawSpec) -> LawSpec:
        changes = {key: getattr(self, key) for key in LawChange.model_fields if getattr(self, key) is not None}
        if self.formula is not None:
            changes |= {"exception": self.exception, "moved": []}
        return base.model_copy(update=changes)


class Moved(Span):
    """What differs on the releases from `since` up to `until`."""

    @model_validator(mode="after")
    def _says_something(self) -> Moved:
        if not self.model_fields_set - Span.model_fields.keys():
            raise ValueError(f"says nothing that differs {self.words()}")
        return self


class MovedValue(Moved, ValueChange):
    """What is otherwise of a value on the releases from `since` up to `until`; what is not said stays as it is."""

    def over(self, base: ValueSpec) -> ValueSpec:
        said = {key: getattr(self, key) for key in self.model_fields_set - Span.model_fields.keys()}
        data = base.model_dump() | {"moved": []}
        if said.keys() & {"at", "reader", "absent"}:
            data |= {"at": None, "reader": None, "absent": None}
        if "at" not in said and data["at"] is None:
            data |= {"native": None, "scale": None, "copies": False, "by_class": {}}
        return ValueSpec.model_validate(data | said)


class MovedLaw(Moved, LawChange):
    """What is otherwise of a law on the releases from `since` up to `until`."""


class ValueOverride(ValueChange):
    """What a family says of a value."""

    moved: list[MovedValue] | None = None

    def over(self, base: ValueSpec) -> ValueSpec:
        value = super().over(base)
        return value if self.moved is None else value.model_copy(update={"moved": self.moved})


class LawOverride(LawChange):
    """What a family says of a law."""

    moved: list[MovedLaw] | None = None

    def over(self, base: LawSpec) -> LawSpec:
        law = super().over(base)
        return law if self.moved is None else law.model_copy(update={"moved": self.moved})


ValueSpec.model_rebuild()
LawSpec.model_rebuild()
