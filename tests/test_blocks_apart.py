"""Blocks of one model that differ: in what they hold, in lengths, in whose keys they use, in what they add last."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sample_records as samples
import torch
from forged import PROMPT, full, spec

from nnpedia import diagram, kinds, operators
from nnpedia.entryspec import LawSpec
from nnpedia.errors import SpecError
from nnpedia.family import load_family
from nnpedia.introspect import block_kinds, sizes
from nnpedia.laws import applies, lender, measure
from nnpedia.observe import read
from nnpedia.record import BlockKind, HostFact, LawFact
from nnpedia.shapes import RAIL
from nnpedia.sizes import block_sizes, size

pytestmark = pytest.mark.usefixtures("one_thread")
FAMILY = "gemma4_text"


def law(formula: str) -> LawSpec:
    return LawSpec(says="It holds", formula=formula)


# -- whose keys and values ----------------------------------------------------------------------


def test_a_block_without_keys_is_lent_those_of_the_last_of_its_type_that_makes_some() -> None:
    assert [lender(full(FAMILY), layer) for layer in range(6)] == [None, None, None, 1, 1, 2]
    assert lender(full("llama"), 1) is None


def test_a_law_about_a_lender_is_measured_where_there_is_one_and_can_fail() -> None:
    model = full(FAMILY)
    names = ("attention_keys", "attention_queries")
    found = read(model, [(layer, "self_attn", name) for layer in range(6) for name in names], PROMPT)
    shared = measure(model, "self_attn", law("lender.self_attn.attention_keys == attention_keys"), found)
    assert (shared.error, shared.cases) == (0.0, 3)
    wrong = measure(model, "self_attn", law("lender.self_attn.attention_queries == attention_queries"), found)
    assert wrong.error is not None
    assert wrong.error > 1000


def test_a_law_about_a_lender_is_not_told_of_a_family_without_one() -> None:
    told = spec("llama").laws["self_attn"]["shared_keys"]
    values = spec("llama").values
    assert spec("llama").lender is None
    assert not applies(told, "self_attn", values)
    assert applies(told, "self_attn", spec(FAMILY).values, lends=spec(FAMILY).lender is not None)
    assert load_family(spec(FAMILY).folder, ("keys-as-values",)).lender is None


def test_a_lender_that_is_no_formula_is_refused_at_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "families"
    folder.mkdir()
    for shared in ("vocabulary.yml", "badges.yml", "llama"):
        (folder / shared).symlink_to(samples.FAMILIES / shared)
    (folder / "tiny").mkdir()
    (folder / "tiny" / "family.yml").write_text(
        "family: tiny\ntitle: Tiny\nsubtitle: s\nextends: llama\narchitecture: X\ncheckpoints: [{id: a/b}]\n"
        "lender:\n  borrows: module.shares\n  alike: '1 +'\n"
    )
    with pytest.raises(SpecError, match=r"tiny/family\.yml:9.*is not a formula"):
        load_family(folder / "tiny")


# -- lengths ------------------------------------------------------------------------------------


class ByBlock:
    """A config that refuses to give one number for what is set by block, as transformers' do."""

    hidden_size, num_attention_heads = 64, 8

    @property
    def head_dim(self) -> int:
        raise RuntimeError("head_dim is a per-layer attribute")


def test_a_length_that_blocks_differ_in_is_not_made_up_from_others() -> None:
    texts = ["module.head_dim", "config.head_dim", "config.hidden_size // config.num_attention_heads"]
    assert size(texts, None, ByBlock()) is None
    assert size(texts, None, SimpleNamespace(hidden_size=64, num_attention_heads=8)) == 8
    module: Any = SimpleNamespace(head_dim=6)
    assert size(texts, module, ByBlock()) == 6


def test_the_model_has_no_length_that_its_blocks_differ_in() -> None:
    model = full(FAMILY)
    for axis in ("head_dim", "qk_head_dim", "intermediate_size"):
        assert axis not in vars(model)
        with pytest.raises(AttributeError, match=rf"model has no one {axis}: blocks differ in it"):
            getattr(model, axis)
    assert [block_sizes(model, layer)["head_dim"] for layer in range(6)] == [6, 6, 10, 6, 6, 10]
    assert full("llama").head_dim == 12


# -- kinds of blocks ----------------------------------------------------------------------------


def test_blocks_of_one_class_that_hold_other_modules_are_kinds_of_their_own() -> None:
    model = full(FAMILY)
    found = block_kinds(model)
    assert [kind.layers for kind in found] == [[0, 1], [2], [3, 4], [5]]
    without = " · without k_norm, v_norm, k_proj, v_proj"
    assert kinds.labels(found) == [
        "sliding_attention",
        "full_attention",
        f"sliding_attention{without}",
        f"full_attention{without}",
    ]
    assert (sizes(model)["head_dim"], sizes(model)["intermediate_size"]) == (6, 120)
    wide, double = {"head_dim": 10, "qk_head_dim": 10}, {"intermediate_size": 240}
    assert [kind.sizes for kind in found] == [{}, wide, double, wide | double]


def test_a_length_that_only_blocks_give_is_told_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = full("falcon")
    lengths = {axis: length for axis, length in model.lengths().items() if axis != "intermediate_size"}
    monkeypatch.setattr(model, "lengths", lambda: lengths)
    monkeypatch.setitem(model.family.sizes, "intermediate_size", ["module.dense_h_to_4h.out_features"])
    assert [kind.sizes for kind in block_kinds(model)] == [
        {"intermediate_size": model.layers[0].mlp.dense_h_to_4h.out_features}
    ]


def test_a_module_that_another_class_has_is_not_said_to_be_missing() -> None:
    def kind(native: str, layer: int, *modules: str) -> BlockKind:
        host = HostFact(name="mlp", path="p", native_class=native, native_path="n", modules={m: m for m in modules})
        return BlockKind(name="block", layers=[layer], hosts=[host])

    assert kinds.labels([kind("Dense", 0, "up"), kind("Mixture", 1, "router")]) == ["Dense", "Mixture"]
    assert kinds.labels([kind("Dense", 0, "up", "bias"), kind("Dense", 1, "up")]) == ["block", "without bias"]


# -- what is added last -------------------------------------------------------------------------


def scaled(formula: str, here: tuple[str, ...] = ("layer_mid", "layer_output")) -> str | None:
    fact = LawFact(name="one", host="layers", says="", formula=formula, holds=True)
    step = operators.scaling([fact], "layer_output", here, ("layer_mid", "layer_output", "per_layer_output"))
    return None if step is None else f"{step.glyph} {step.by}"


def test_a_factor_on_the_whole_stream_is_told_from_one_on_a_contribution() -> None:
    assert scaled("(layer_mid + mlp.mlp_output) * layer_scalar == layer_output") == "× layer_scalar"
    assert scaled("layer_mid + mlp.mlp_output * config.factor == layer_output") is None
    assert scaled("layer_mid + mlp.mlp_output == layer_output") is None
    assert scaled("(layer_mid + per_layer_output) * layer_scalar == layer_output") is None  # of another kind of block


def test_the_third_contribution_is_drawn_after_the_mlp() -> None:
    entry = samples.entry(samples.FAMILIES / FAMILY)
    (drawn,) = diagram.diagrams(entry.references[0], laws=entry.runs[0].laws)
    chips = {chip.value.name: chip for chip in drawn.chips}
    order = ("mlp_output", "layer_after_mlp", "per_layer_input", "per_layer_output", "layer_output")
    heights = [chips[name].y for name in order]
    assert heights == sorted(heights)
    assert [add.output for add in drawn.adds] == ["attention_output", "mlp_output", "per_layer_output"]
    assert [add.law for add in drawn.adds] == ["attention_add", "mlp_add", "per_layer_add"]
    signs = {(each.step.by, each.target.name): each for each in drawn.operators}
    assert signs["layer_scalar", "layer_output"].x == RAIL
    assert ("per_layer_input", "per_layer_output") in signs
    boxes = [(chip.x, chip.y, chip.right, chip.y + 28) for chip in drawn.chips]
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_the_neurons_of_an_mlp_beside_the_experts_are_drawn_with_it() -> None:
    family = load_family(samples.FAMILIES / FAMILY, ("keys-as-values", "mixture"))
    reference = samples.entry(samples.FAMILIES / FAMILY).references[0]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"values": samples.values(family, probed=False)}))
    panels = {panel.title: panel for panel in drawn.panels}
    chips = {chip.value.name: chip for chip in drawn.chips}

    def inside(name: str, title: str) -> bool:
        return panels[title].y < chips[name].y < panels[title].y + panels[title].height

    assert all(inside(name, "shared expert") for name in ("mlp_activation", "mlp_neurons", "shared_expert_output"))
    assert inside("expert_outputs", "experts")
    assert not inside("mlp_neurons", "experts")


def test_a_patch_of_the_embeddings_leaves_the_blocks_own() -> None:
    model = full(FAMILY)
    with model.trace(PROMPT):
        embedded = model.token_embeddings.clone().save()
        own = model.layers[2].per_layer_input.clone().save()
    with model.trace(PROMPT):
        model.token_embeddings = torch.zeros_like(embedded)
        patched = model.layers[2].per_layer_input.clone().save()
    assert not torch.equal(patched, own)  # a part of it is a map of the embedding
    assert patched.abs().max() > 0.1  # and a part is not


# -- in which order -----------------------------------------------------------------------------


def test_the_order_of_a_variant_can_be_followed() -> None:
    """On a block whose MLP runs before its router, its output is reached first."""
    from nnpedia import StandardizedTransformer

    model = StandardizedTransformer(
        f"{FAMILY}:forge-mixture", attn_implementation="eager", experts_implementation="batched_mm"
    )
    order, block = model.forward_order(), model.layers[2]
    with model.trace(PROMPT):
        for name in order:
            host, value = name.split(".")
            if host != "model":
                getattr(block if host == "layers" else getattr(block, host), value)
    assert order.index("mlp.shared_expert_output") < order.index("mlp.router_logits")
