"""Records: what a build found out, as data. Pages are rendered from records alone.

One JSON file per (family, checkpoint). A `Reference` is a public checkpoint at full size, read
on the meta device without weights; a `Run` is a checkpoint whose weights ran here. Records hold
no time and no machine path: the same inputs give the same bytes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Versions(Fact):
    """The versions a record was made with."""

    nnpedia: str
    python: str
    torch: str
    transformers: str
    nnsight: str


class HostFact(Fact):
    """A host of values: the root, a block, or a sublayer of a block."""

    name: str  # "model", "layers", "self_attn", "mlp", "linear_attn"
    path: str  # "model", "model.layers[i]", "model.layers[i].self_attn"
    native_class: str  # "PhimoeDecoderLayer"
    native_path: str  # "model.layers.0.self_attn"
    modules: dict[str, str] = {}  # native child path -> its standard name, of the children it has


class BlockKind(Fact):
    """Blocks of one model that look alike: the same modules and the same layer type."""

    name: str  # "block", or the config's layer type ("sliding_attention")
    layers: list[int]
    hosts: list[HostFact]
    sizes: dict[str, int] = {}  # axis to length, where it is not the record's own


class ConfigRow(Fact):
    key: str
    value: Any
    origin: str  # "defaults", "published", "hub@<revision>", "forge"


class Load(Fact):
    """One way to load the model, such as `eager` attention with `grouped_mm` experts."""

    label: str  # "sdpa", "eager", "sdpa+grouped_mm"
    options: dict[str, str]  # {"attn_implementation": "sdpa", ...}
    default: bool = False  # what a load without options resolves to


class ValueFact(Fact):
    """A standard value on one checkpoint."""

    host: str  # a HostFact name
    name: str
    layout: str  # "Queries"; "scalar" for input_size
    axes: list[str]  # ["batch", "num_heads", "seq", "qk_head_dim"]
    description: str
    address: str | None = None  # as in the spec; None when absent
    reader: str | None = None  # a named Python reader, when it has one
    words: str | None = None  # the address in words
    native: str | None = None  # the einops pattern, when laid out differently
    source: str | None = None  # file:line of the spec line that says it
    absent: str | None = None  # the reason this family has no such value
    readable: dict[str, bool] = {}  # load label -> a real read gave it (probed)
    reasons: dict[str, str] = {}  # load label -> why not, where it did not
    layers: list[int] | None = None  # the blocks that have it, when not all do
    shape: list[int] | None = None  # a real shape
    dtype: str | None = None
    assignable: bool = False
    causal: bool | None = None  # an assigned value changed what comes after (probed)
    in_place: bool | None = None  # an in-place edit changed what comes after (probed)


class LawFact(Fact):
    """A law on one checkpoint: the formula with this family's names, and the error measured."""

    name: str
    host: str
    says: str
    formula: str
    holds: bool
    exception: str | None = None  # the reason, when the family states it does not apply
    error: float | None = None  # largest |left - right| over the largest |value|, in epsilons
    tolerance: float | None = None  # in epsilons
    load: str | None = None  # the load it was measured under
    cases: int = 0  # how many layers (or pairs) it was measured on
    message: str | None = None  # what broke, when it does not hold
    source: str | None = None


class SnippetFact(Fact):
    """A fence of notes.md (or of a hand-written page) and what it gave.

    In a record it stands apart from its page: `nnpedia.placing` gives it the section and the lines it has there.
    """

    file: str
    line: int  # of the fence's first line of code; in a record, of a page that has nothing but the record's fences
    section: str  # the heading it stands under
    code: str
    options: dict[str, str] = {}  # what stands after the fence, and what it has from the one it continues
    ran: bool
    reason: str | None = None  # why it did not run, when it is marked so
    on: str | None = None  # what it ran on, in words
    load: dict[str, str] = {}
    output: str = ""
    asserts: int = 0
    ok: bool = True
    error: str | None = None  # "file:line: message", and the traceback inside the snippet


class Problem(Fact):
    """Something documented that turned out wrong."""

    where: str  # file:line
    what: str


class Origin(Fact):
    """Where a checkpoint comes from."""

    name: str  # "forge", "SmolLM2-135M-Instruct", "microsoft/Phi-3.5-MoE-instruct"
    id: str  # the public id it is, or the reference it was scaled from
    source: Literal["hub", "package", "forge", "meta"]
    detail: str  # one sentence: the wheel and its version, the revision, the seed
    dtype: str
    config_origin: str  # "defaults", "published", "hub@<revision>"


class Reference(Fact):
    """A public checkpoint at full size, from its config, on the meta device."""

    kind: Literal["reference"] = "reference"
    family: str
    versions: Versions
    origin: Origin
    architecture: str
    sizes: dict[str, int]
    parameters: int
    config: list[ConfigRow]
    printout: str
    kinds: list[BlockKind]
    root: list[HostFact]
    values: list[ValueFact]  # address, layout, and shape at full size for [1, 8] tokens
    problems: list[Problem] = []


class Run(Fact):
    """A checkpoint whose weights ran here: probes, laws, writes, snippets."""

    kind: Literal["run"] = "run"
    family: str
    versions: Versions
    origin: Origin
    architecture: str
    sizes: dict[str, int]
    parameters: int
    config: list[ConfigRow]
    printout: str
    kinds: list[BlockKind]
    root: list[HostFact]
    prompt: str
    loads: list[Load]
    values: list[ValueFact]
    laws: list[LawFact]
    snippets: list[SnippetFact]
    problems: list[Problem] = []  # but for those of the notes


class Page(Fact):
    """A hand-written page (of `site/`, or the README): what its snippets gave."""

    kind: Literal["page"] = "page"
    file: str  # relative to the checkout
    versions: Versions
    snippets: list[SnippetFact]
