"""What every family's page says, put to its forged checkpoint. A family joins by having a folder."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from forged import PROMPT, attentions, chooses_experts, each_family, encoded, folder, full, load, spec
from reading import epsilons, everything, law_holds

from nnpedia.checkpoints import reference_config
from nnpedia.sizes import block_sizes

pytestmark = pytest.mark.usefixtures("one_thread")


# -- the oracle ---------------------------------------------------------------------------------


def experts_choices(family: str) -> list[tuple[str | None, str | None]]:
    """The library's experts implementation, and the oracle's that computes the same."""
    return (
        [("batched_mm", "oracle"), ("eager", "eager"), ("grouped_mm", "grouped_mm")]
        if chooses_experts(family)
        else [(None, None)]
    )


@each_family
def test_every_value_is_the_one_an_independent_forward_gives(family: str) -> None:
    """Bit for bit, on every block, under eager attention and each way to run experts; a recurrence to rounding."""
    for ours, theirs in experts_choices(family):
        model = load(family, attn_implementation="eager", **({"experts_implementation": ours} if ours else {}))
        expected = oracle.answers(oracle.record(oracle.load(folder(family), theirs), encoded(model, PROMPT)))
        found = {spot: value for spot, value in everything(model).items() if not isinstance(value, Exception)}
        wrong = {
            spot: _difference(found[spot], value, rounded=spot[2] in oracle.REPLAYED)
            for spot, value in expected.items()
            if spot in found
        }
        assert {spot: text for spot, text in wrong.items() if text} == {}
        # Neither side may leave a value out: not the oracle, by a mechanism half described,
        # nor the library, by an error where there is a value.
        assert set(found) - set(expected) == (
            {spot for spot in found if spot[2] == "expert_outputs"} if theirs == "grouped_mm" else set()
        )
        assert set(expected) - set(found) == set()


def _difference(found: Any, expected: Any, *, rounded: bool = False) -> str | None:
    if not isinstance(expected, torch.Tensor):
        return None if found == expected else f"{found} is not {expected}"
    if found.shape != expected.shape:
        return f"{list(found.shape)} is not {list(expected.shape)}"
    if rounded and epsilons(found, expected) <= 32:
        return None
    return None if torch.equal(found, expected) else f"off by {(found - expected).abs().max():.3g}"


# -- what the spec declares ---------------------------------------------------------------------


@each_family
def test_laws_probes_shapes_and_writes_are_as_declared(family: str) -> None:
    """The encyclopedia's own verification finds nothing wrong under any load."""
    from nnpedia.verify import verify

    checked = verify(spec(family), lambda options: load(family, **options), PROMPT)
    assert [f"{problem.where}: {problem.what}" for problem in checked.problems] == []
    assert len(checked.loads) == len(attentions(family)) * (3 if chooses_experts(family) else 1)


@each_family
def test_other_loads_give_the_same_values_to_rounding(family: str) -> None:
    """What a load gives at all is the same quantity there, whatever computes it."""
    reference = everything(full(family))
    if "sdpa" not in attentions(family):
        pytest.skip("transformers loads the class with eager attention only")
    options = [{"attn_implementation": "sdpa"}]
    if chooses_experts(family):
        options += [{"attn_implementation": "sdpa", "experts_implementation": name} for name in ("eager", "grouped_mm")]
    for choice in options:
        far = {}
        for spot, value in everything(load(family, **choice)).items():
            if isinstance(value, torch.Tensor):
                distance = epsilons(value, reference[spot])
                if not distance <= 64:
                    far[spot] = distance
        assert far == {}


@each_family
def test_what_needs_another_load_says_which(family: str) -> None:
    """A value with `needs` is refused, naming the load, under every other load; and nothing else is refused.

    A block that is built without a value, where others have it, is another matter.
    """
    from nnpedia import Unavailable

    for attn in attentions(family):
        for experts in ("eager", "batched_mm") if chooses_experts(family) else (None,):
            options = {"attn_implementation": attn} | ({"experts_implementation": experts} if experts else {})
            refused = {}
            for spot, value in everything(load(family, **options)).items():
                if isinstance(value, Exception):
                    assert isinstance(value, Unavailable), value
                    if not value.layers:
                        refused[spot[1:]] = value.load
            needs = {
                (host, name): {key: choices[0] for key, choices in value.needs.items() if options[key] not in choices}
                for host, table in spec(family).values.items()
                for name, value in table.items()
                if value.absent is None
            }
            assert refused == {pair: need for pair, need in needs.items() if need}


@each_family
def test_the_lens_at_the_last_block_is_the_models_answer(family: str) -> None:
    """Inside and outside a trace, and not only for the clean stream: whatever follows the head is in it."""
    if not law_holds(family, "model", "readout"):
        pytest.skip("the readout does not give the logits")
    model = full(family)
    block = model.layers[model.num_layers - 1]
    with model.trace(PROMPT):
        stream = (block.layer_output * 3).save()
        block.layer_output = stream
        inside = model.project_on_vocab(stream).save()
        logits = model.logits.clone().save()
    with torch.no_grad():
        outside = model.project_on_vocab(stream)
    assert torch.equal(inside, logits)
    assert torch.equal(outside, logits)


@each_family
def test_sizes_are_those_of_the_tensors(family: str) -> None:
    """Each size equals what the oracle's tensors, which know nothing of the spec, measure."""
    model = full(family)
    plain = oracle.load(folder(family), "oracle" if chooses_experts(family) else None)
    theirs = oracle.answers(oracle.record(plain, encoded(model, PROMPT)))
    blocks = {spot[0] for spot in theirs if spot[0] is not None}
    assert model.num_layers == len(blocks)
    lengths = {"batch": 1, "seq": len(PROMPT), "query": len(PROMPT), "key": len(PROMPT)}
    for spot, tensor in theirs.items():
        value = spec(family).values[spot[1]][spot[2]]
        if isinstance(tensor, torch.Tensor):
            axes = spec(family).axes(value)
            own = {} if spot[0] is None else block_sizes(model, spot[0])
            assert list(tensor.shape) == [
                lengths[axis] if axis in lengths else own.get(axis) or getattr(model, axis) for axis in axes
            ], spot


@each_family
def test_the_forward_order_names_every_value_the_family_has(family: str) -> None:
    """Probes, laws and writes run over this list: a value it leaves out is never checked."""
    from nnpedia.order import forward_order

    have = [
        f"{host}.{name}"
        for host, table in spec(family).values.items()
        for name, value in table.items()
        if value.absent is None
    ]
    assert sorted(forward_order(spec(family))) == sorted(have)


def heads(config: Any) -> tuple[int, int]:
    """A config's query heads, and its key and value heads, however its class calls them."""
    config.allow_global_per_layer_attribute_access = True  # where blocks differ, most of them
    queries = config.num_attention_heads
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return queries, 1
    names = ("num_key_value_heads", "num_kv_heads")
    return queries, next((found for name in names if (found := getattr(config, name, None))), queries)


@each_family
def test_the_badges_of_shared_keys_are_those_of_its_checkpoints(family: str) -> None:
    """A badge is there if any checkpoint has it: who looks for grouped heads finds every family with some."""
    if "attention" not in spec(family).parts or "latent-attention" in spec(family).badges:
        pytest.skip("it has no key heads to share")
    found = set()
    for checkpoint in spec(family).checkpoints:
        queries, keys = heads(reference_config(spec(family), checkpoint).get_text_config())
        if keys < queries:
            found.add("multi-query-attention" if keys == 1 else "grouped-query-attention")
    assert {badge for badge in spec(family).badges if badge.endswith("-query-attention")} == found
