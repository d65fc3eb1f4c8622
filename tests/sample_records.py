"""Sample records: what a build might find out of a family, made up, for the tests of the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from nnpedia.entry import Entry
from nnpedia.family import Family, load_family
from nnpedia.fences import read_document
from nnpedia.pagecode import options_of
from nnpedia.record import (
    BlockKind,
    ConfigRow,
    HostFact,
    LawFact,
    Load,
    Origin,
    Page,
    Reference,
    Run,
    SnippetFact,
    ValueFact,
    Versions,
)

FAMILIES = Path(__file__).parent.parent / "families"
VERSIONS = Versions(nnpedia="0.1.0", python="3.11.2", torch="2.13.0", transformers="5.24.0", nnsight="0.8.1")
SIZES = {
    "num_layers": 32, "hidden_size": 4096, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "qk_head_dim": 128,
    "vocab_size": 32064, "intermediate_size": 6400, "num_experts": 16, "top_k": 2,
}  # fmt: skip
PRINTOUT = """PhimoeForCausalLM(
  (layers): ModuleList(
    (0-31): 32 x PhimoeDecoderLayer(
      (self_attn): PhimoeAttention(
        (attention_queries) -> Queries [batch num_heads seq qk_head_dim]: The queries
      )
      (mlp): PhimoeSparseMoeBlock(
        (router): PhimoeTopKRouter(in_features=4096, out_features=16, bias=False)
        (experts): PhimoeExperts(
          (act_fn): SiLUActivation()
        )
      )
      (input_layernorm): LayerNorm((4096,), eps=1e-05, elementwise_affine=True, bias=True)
      (post_attention_layernorm): LayerNorm((4096,), eps=1e-05, elementwise_affine=True, bias=True)
    )
  )
)"""
LOADS = [
    Load(label=f"{attention}+{experts}", options={"attn_implementation": attention, "experts_implementation": experts},
         default=(attention, experts) == ("sdpa", "grouped_mm"))
    for attention in ("sdpa", "eager") for experts in ("eager", "grouped_mm", "batched_mm")
]  # fmt: skip


def hosts() -> list[HostFact]:
    block, layer = "model.layers[i]", "model.layers.0"
    return [
        HostFact(name="layers", path=block, native_class="PhimoeDecoderLayer", native_path=layer),
        HostFact(
            name="self_attn",
            path=f"{block}.self_attn",
            native_class="PhimoeAttention",
            native_path=f"{layer}.self_attn",
        ),
        HostFact(name="mlp", path=f"{block}.mlp", native_class="PhimoeSparseMoeBlock", native_path=f"{layer}.mlp"),
    ]


def values(family: Family, probed: bool) -> list[ValueFact]:
    facts = []
    for host, table in family.values.items():
        for name, spec in table.items():
            axes = list(family.axes(spec))
            there = {load.label: all(load.options[key] in good for key, good in spec.needs.items()) for load in LOADS}
            facts.append(
                ValueFact(
                    host=host, name=name, layout=spec.layout, axes=axes, description=spec.says, address=spec.at,
                    reader=spec.reader, native=spec.native, absent=spec.absent,
                    words=spec.at and f"words for {spec.at}",
                    shape=[1 if axis == "batch" else SIZES.get(axis, 8) for axis in axes],
                    readable=there if probed and not spec.absent else {},
                    reasons={label: "this load never computes it" for label, found in there.items() if not found},
                    assignable=bool(spec.at), causal=True if spec.at and probed else None,
                )
            )  # fmt: skip
    return facts


def laws(family: Family) -> list[LawFact]:
    return [
        LawFact(host=host, name=name, says=law.says, formula=law.formula, holds=law.exception is None,
                exception=law.exception, error=None if law.exception else 0.25, tolerance=law.tolerance,
                load="eager", cases=2)
        for host, table in family.laws.items() for name, law in table.items()
    ]  # fmt: skip


def common(family: Family, **origin: Any) -> dict[str, Any]:
    return {
        "family": family.family, "versions": VERSIONS, "architecture": family.architecture, "sizes": SIZES,
        "origin": Origin(dtype="bfloat16", config_origin="published", **origin), "parameters": 41_900_000_000,
        "config": [ConfigRow(key="attention_bias", value=True, origin="published"),
                   ConfigRow(key="hidden_act", value="silu", origin="defaults")],
        "printout": PRINTOUT, "kinds": [BlockKind(name="block", layers=list(range(32)), hosts=hosts())],
        "root": [HostFact(name="model", path="model", native_class=family.architecture, native_path="")],
    }  # fmt: skip


def snippets(notes: Path) -> list[SnippetFact]:
    return [
        SnippetFact(file=str(notes), line=fence.line, section=fence.section, code=fence.code, ran=fence.runs,
                    options=options_of(fence),
                    reason=fence.reason, on="forge", load=fence.load, output="[2, 5]\n",
                    asserts=fence.code.count("assert"))
        for fence in read_document(notes).fences
    ] if notes.exists() else []  # fmt: skip


def entry(folder: Path) -> Entry:
    """An entry of the family in `folder` as if it had been built."""
    family = load_family(folder)
    notes = folder / "notes.md"
    reference = Reference(
        **common(
            family, name=family.checkpoints[0].id, id=family.checkpoints[0].id, source="meta", detail="Full size."
        ),
        values=values(family, probed=False),
    )
    run = Run(
        **common(family, name="forge", id=family.checkpoints[0].id, source="forge", detail="Seed 0."),
        prompt="The Eiffel Tower is in the city of", loads=LOADS, values=values(family, probed=True),
        laws=laws(family), snippets=snippets(notes),
    )  # fmt: skip
    return Entry(
        family=family, spec=(folder / "family.yml").read_text(), notes=notes.read_text() if notes.exists() else "",
        notes_file=str(notes), references=[reference], runs=[run],
    )  # fmt: skip


def write_records(home: Path, made: Entry) -> None:
    """Lay the entry's records out as a build would."""
    folder = home / "records" / made.name
    folder.mkdir(parents=True, exist_ok=True)
    for fact in made.facts:
        if isinstance(fact, Run):  # a record tells of the fences that run, and of no other
            fact = fact.model_copy(update={"snippets": [each for each in fact.snippets if each.ran]})
        name = f"{fact.kind}-00-{quote(fact.origin.name, safe='')}.json"
        (folder / name).write_text(fact.model_dump_json(), encoding="utf-8")


def write_built(home: Path, root: Path) -> None:
    """Records of every family and hand-written page of a checkout."""
    for spec in sorted((root / "families").glob("*/family.yml")):
        write_records(home, entry(spec.parent))
    folder = home / "records" / "_pages"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((root / "site").glob("*.md")):
        facts = [fact.model_copy(update={"file": f"site/{path.name}"}) for fact in snippets(path) if fact.ran]
        made = Page(file=f"site/{path.name}", versions=VERSIONS, snippets=facts)
        (folder / f"page-00-{path.stem}.json").write_text(made.model_dump_json(), encoding="utf-8")


def snippet(line: int, **changes: Any) -> SnippetFact:
    """What a record says of the snippet at a line of a page: it ran, and one assert held."""
    made = {
        "file": "n.md",
        "line": line,
        "section": "",
        "code": "",
        "ran": True,
        "on": "forge",
        "asserts": 1,
        **changes,
    }
    return SnippetFact(**made)
