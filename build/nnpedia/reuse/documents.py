"""Documents: what each JSON file under `api/v1/` holds, as models; their JSON Schemas are made from these.

Every `url` and `page` is a path from the root of the site, so that the site can stand under any address.
A checkpoint's own file is its record and has the record's model.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from nnpedia.overview import State
from nnpedia.record import BlockKind, ConfigRow, HostFact, SnippetFact, Versions


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Index(Document):
    """`index.json`: where everything else is."""

    name: str = "nnpedia"
    api: str = "v1"
    versions: Versions | None = Field(description="What the records were made with; null where none are made.")
    families: str
    values: str
    laws: str
    badges: str
    schemas: dict[str, str] = Field(description="The JSON Schema of each document, by the document's name.")
    openapi: str


class Counts(Document):
    """A family in numbers: the values it serves, the laws that were measured on it, the snippets that ran."""

    values: int
    laws: int
    snippets: int


class FamilyLine(Document):
    """A family, in short."""

    family: str = Field(description="transformers' `model_type`")
    title: str
    subtitle: str
    architecture: str
    extends: str | None
    badges: list[str]
    built: bool = Field(description="whether records of the family are there")
    counts: Counts
    checkpoints: list[str] = Field(description="the public checkpoints, the reference first")
    trained: list[str] = Field(description="the checkpoints whose trained weights ran")
    url: str
    page: str


class Families(Document):
    """`families.json`: every family, in short."""

    families: list[FamilyLine]


class CheckpointLine(Document):
    """A checkpoint and where its record is."""

    slug: str
    name: str
    id: str
    kind: str = Field(description="`reference`: full size without weights; `run`: weights ran")
    source: str = Field(description="hub, package, forge or meta")
    detail: str
    dtype: str
    config_origin: str
    parameters: int
    sizes: dict[str, int]
    variants: list[str]
    url: str


class Place(Document):
    """Where a value is and what it is, on some of the family's checkpoints."""

    where: str = Field(description="the variants or checkpoints; empty where it is so on all")
    layout: str
    axes: list[str]
    description: str
    address: str | None
    reader: str | None
    words: str | None
    native: str | None
    absent: str | None = Field(description="the reason, where these checkpoints lack the value")
    source: str | None = Field(description="file:line of the spec that says it")


class Probe(Document):
    """What a real read found under one load."""

    checkpoint: str
    load: str
    options: dict[str, str]
    found: bool
    reason: str | None


class Some(Document):
    """Checkpoints on which not every block has the value, and the blocks that do."""

    checkpoints: str
    blocks: str


class Value(Document):
    """A value that the family serves: a row of its page."""

    host: str
    name: str
    expression: str = Field(description="how it is read: `model.layers[i].self_attn.attention_queries`")
    places: list[Place] = Field(description="the first is the one the page tells first")
    shape: list[int] | None = Field(description="for one prompt of eight tokens")
    shape_on: str = Field(description="the checkpoint whose sizes the shape has")
    assignable: bool
    causal: bool | None = Field(description="an assigned value changed what comes after; null where not tried")
    in_place: bool | None = Field(description="an edit in place changed what comes after; null where not tried")
    condition: str | None = Field(description="what a load has to be, where the probes of loads differ")
    probes: list[Probe]
    some_blocks: list[Some]
    page: str


class Absence(Document):
    """A value of the vocabulary that no checkpoint of the family has."""

    host: str
    name: str
    reason: str


class Measured(Document):
    """What one run measured of a law. Errors are in epsilons of the dtype times the largest magnitude compared."""

    checkpoint: str
    holds: bool
    error: float | None
    tolerance: float | None
    load: str | None
    cases: int
    message: str | None


class LawReading(Document):
    """A law as some of the family's checkpoints have it."""

    where: str
    says: str
    formula: str
    exception: str | None = Field(description="the reason, where the family says that it does not apply")
    measured: list[Measured]


class Law(Document):
    host: str
    name: str
    readings: list[LawReading]
    page: str


class Family(Document):
    """`families/<family>.json`: all that the family's page says."""

    family: str
    title: str
    subtitle: str
    architecture: str
    extends: str | None
    badges: list[str]
    about: str = Field(description="Markdown, from the spec")
    versions: Versions | None
    counts: Counts
    root: list[HostFact]
    kinds: list[BlockKind] = Field(description="the block kinds of the page's first checkpoint")
    config: list[ConfigRow] = Field(description="the config of the page's first checkpoint")
    printout: str
    values: list[Value]
    absent: list[Absence]
    laws: list[Law]
    snippets: list[SnippetFact]
    checkpoints: list[CheckpointLine]
    page: str


class ValueCell(Document):
    """A value on one family; `says` is the condition, the blocks or the reason."""

    states: list[State]
    served: bool
    says: str


class VocabularyValue(Document):
    """A value of the vocabulary, and how each family has it."""

    host: str
    path: str
    name: str
    layout: str
    axes: list[str]
    says: str
    families: dict[str, ValueCell]


class Values(Document):
    """`values.json`: the vocabulary's values on every family."""

    values: list[VocabularyValue]


class LawCell(Document):
    """A law on one family: whether it held in every run (null where none measured it), and the largest error."""

    formula: str
    holds: bool | None
    error: float | None
    exception: str | None


class VocabularyLaw(Document):
    """A law of the vocabulary, and what was measured of it on each family that it applies to."""

    host: str
    name: str
    says: str
    formula: str
    tolerance: float
    families: dict[str, LawCell]


class Laws(Document):
    """`laws.json`: the vocabulary's laws on every family."""

    laws: list[VocabularyLaw]


class BadgeLine(Document):
    name: str
    title: str
    says: str
    families: list[str]
    page: str | None = Field(description="null where no family has the badge")


class Badges(Document):
    """`badges.json`: what the badges mean and who has them."""

    badges: list[BadgeLine]
