"""Forwards are opened where values are read, and whoever asks nnsight for more still gets it."""

from __future__ import annotations

import pickle

import pytest
import torch
from nnsight.intervention.source import STATE

from nnpedia import StandardizedTransformer
from nnpedia.forwards import asks_for_source
from nnpedia.handoffs import Handoff

IDS = torch.arange(1, 8)[None]


def load(attention: str = "eager") -> StandardizedTransformer:
    model = StandardizedTransformer("llama:forge", attn_implementation=attention)
    model.dispatch()
    return model


@pytest.fixture(scope="module")
def model() -> StandardizedTransformer:
    return load()


def patterns(model: StandardizedTransformer) -> list[torch.Tensor]:
    found = []
    with torch.no_grad(), model.trace(IDS):
        for block in model.layers:
            found.append(block.self_attn.attention_probabilities.save())
    return found


def calls_of_operations(model: StandardizedTransformer) -> int:
    """How many operations a run shows the interleaver."""
    shown = [place for place in model.interleaver.counts if ".source." in place and place.endswith(".output")]
    model.interleaver.counts.clear()
    return len(shown)


def test_a_run_shows_only_the_operations_that_values_are_read_at(model: StandardizedTransformer) -> None:
    model.interleaver.counts.clear()
    patterns(model)
    chains = {
        value.address.operations
        for host in ("layers", "self_attn", "mlp")
        for name in model.family.values[host]
        if (value := getattr(type(getattr(model.layers[0], host, model.layers[0])), name, None)) and value.address
    } - {()}
    places = {chain[:depth] for chain in chains for depth in range(1, len(chain) + 1)}
    assert 0 < calls_of_operations(model) <= len(places) * model.num_layers


def test_patterns_are_those_of_transformers_and_the_same_in_the_next_run(model: StandardizedTransformer) -> None:
    with torch.no_grad():
        expected = model._module(IDS, output_attentions=True).attentions
    for _ in range(2):
        for ours, theirs in zip(patterns(model), expected, strict=True):
            assert torch.equal(ours, theirs)


def test_a_trace_that_asks_for_source_gets_everything_also_after_a_value_of_the_same_forward() -> None:
    model = load()
    patterns(model)
    attention = model.layers[0].self_attn
    with torch.no_grad(), model.trace(IDS):
        queries = attention.attention_queries.save()
        rows = attention.source.attention_interface_1.source.attn_weights_0.output.save()
        mixed = attention.source.attn_output_reshape_0.output.save()
    assert queries.shape[:2] == (1, model.num_heads)
    assert rows.shape == (1, model.num_heads, 7, 7)
    assert mixed.shape[:2] == (1, 7)
    assert torch.equal(patterns(model)[0].sum(-1).round(), torch.ones(1, model.num_heads, 7))


def test_what_asks_for_source_is_told_from_its_code() -> None:
    assert asks_for_source(compile("for b in m: f = lambda: b.source.x_0.output", "t", "exec"))
    assert not asks_for_source(compile("x = block.layer_output.save()", "t", "exec"))


def test_every_module_is_still_shown_and_counted(model: StandardizedTransformer) -> None:
    """A child that no standard value is read at: nnsight's own access works on it as before."""
    model.interleaver.counts.clear()
    with torch.no_grad(), model.trace(IDS):
        gate = model.layers[1].mlp.gate_proj.output.save()
        stream = model.layers[1].layer_output.save()
    assert isinstance(model._module.model.layers[0].mlp.act_fn.__dict__["forward"], Handoff)
    assert gate.shape[-1] == model.intermediate_size
    assert stream.shape[-1] == model.hidden_size
    path = model.layers[0].mlp.path
    assert [model.interleaver.counts[f"{path}.{side}"] for side in ("input", "skip", "output")] == [1, 1, 1]


def test_a_skipped_module_is_skipped_on_the_short_way(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace(IDS):
        plain = model.logits.save()
    with torch.no_grad(), model.trace(IDS):
        model.layers[0].mlp.skip(torch.zeros(1, 7, model.hidden_size))
        skipped = model.logits.save()
    with torch.no_grad(), model.trace(IDS):
        model.layers[0].mlp.mlp_output = torch.zeros(1, 7, model.hidden_size)
        zeroed = model.logits.save()
    assert torch.equal(skipped, zeroed)
    assert not torch.equal(skipped, plain)


def test_outside_a_trace_the_module_computes_what_it_did(model: StandardizedTransformer) -> None:
    patterns(model)
    fresh = load()
    with torch.no_grad():
        assert torch.equal(model._module(IDS).logits, fresh._module(IDS).logits)


def test_the_module_of_a_traced_model_can_be_copied() -> None:
    model = load()
    patterns(model)
    copied = pickle.loads(pickle.dumps(model._module))
    assert not copied.__dict__[STATE].routes
    with torch.no_grad():
        assert torch.equal(copied(IDS).logits, model._module(IDS).logits)
