"""What `family.yml` may say: the pydantic models a family's spec is validated by."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from nnpedia.entryspec import LawOverride, Spec, ValueOverride
from nnpedia.versions import RELEASE, quoted

LONGEST_NAME = 100  # of what a file or a folder is named after


class PublicCheckpoint(Spec):
    """A checkpoint on the Hub, and where its config comes from.

    `config` holds what differs from the config class's defaults. `origin` is `defaults` (nothing
    more is known), `published` (known publicly, the repository was not opened here) or
    `hub@<revision>`.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$", max_length=LONGEST_NAME)
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

    name: str = Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=LONGEST_NAME)
    id: str
    wheels: list[Wheel]
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    licence: str
    config: dict[str, Any] = {}
    tokenizer: dict[str, Any] = {}


class Lender(Spec):
    """Whose keys and values a block attends with that makes none: those of the last block before it that makes its own.

    Formulas over the attention's `module` and `config`: whether a block `borrows`, and what the two are `alike` in.
    """

    borrows: str
    alike: str


class Differences(Spec):
    """What a spec, or one of its variants, says of names, sizes, values, laws and readout.

    `order` lists values of a host that a forward reaches in another order than the vocabulary's. A `lender` of null
    says that every block makes its keys and values, where what is extended says otherwise.
    """

    parts: list[str] = []
    names: dict[str, dict[str, str]] = {}
    sizes: dict[str, list[str]] = {}
    virtual: dict[str, str] = {}
    values: dict[str, dict[str, ValueOverride]] = {}
    order: dict[str, list[str]] = {}
    laws: dict[str, dict[str, LawOverride]] = {}
    readout: str | None = None
    lender: Lender | None = None


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
    """`family.yml` as written; `since` is the first release of transformers with the model type, where it is young."""

    family: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=LONGEST_NAME)
    title: str
    subtitle: str
    extends: str | None = None
    since: str | None = Field(default=None, pattern=RELEASE)
    architecture: str
    badges: list[str] = []
    checkpoints: list[PublicCheckpoint] = Field(min_length=1)
    variants: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=LONGEST_NAME)], Variant] = {}
    forge: dict[str, Any] = {}
    packages: list[Package] = []
    about: str = ""

    @field_validator("since", mode="before")
    @classmethod
    def _in_quotes(cls, text: Any) -> Any:
        return quoted(text)
