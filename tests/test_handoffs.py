"""The short way through a call that nobody looks at serves and counts what nnsight's own way does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from nnsight.intervention.interleaver import Interleaver
from nnsight.intervention.source import STATE, Controller

from nnpedia import StandardizedTransformer
from nnpedia.handoffs import Handoff
from nnpedia.spots import Watching

IDS = torch.arange(1, 6)[None]


@pytest.fixture(scope="module")
def model() -> StandardizedTransformer:
    model = StandardizedTransformer("llama:forge", attn_implementation="eager")
    model.dispatch()
    with torch.no_grad(), model.trace(IDS):
        model.logits.save()
    return model


@pytest.fixture
def plain(model: StandardizedTransformer) -> Iterator[StandardizedTransformer]:
    """The same model with nnsight's controllers."""
    short = {module: module.__dict__["forward"] for module in model._module.modules()}
    for module in short:
        module.__dict__["forward"] = Controller(module, module.__dict__[STATE])
    yield model
    for module, forward in short.items():
        module.__dict__["forward"] = forward


def steps(model: StandardizedTransformer) -> tuple[list[torch.Tensor], dict[str, int]]:
    """Values of the third step of a generation, some in modules nobody looked at before, and the counts."""
    found = []
    with torch.no_grad(), model.generate(IDS, max_new_tokens=4, do_sample=False) as tracer:
        for step in tracer.iter[:4]:
            if step < 2:
                found.append(model.layers[0].layer_output.save())
            if step == 2:
                found.append(model.layers[0].self_attn.q_proj.output.save())
                found.append(model.layers[0].self_attn.attention_probabilities.save())
                found.append(model.layers[1].mlp.act_fn.output.save())
    modules = [module.__dict__[STATE].routes[0][2] for module in model._module.modules()]
    return found, {place: model.interleaver.counts.get(place, 0) for places in modules for place in places}


def test_steps_serve_and_count_what_nnsights_own_way_does(
    model: StandardizedTransformer, request: pytest.FixtureRequest
) -> None:
    assert all(type(module.__dict__["forward"]) is Handoff for module in model._module.modules())
    values, counts = steps(model)
    assert counts["model.model.layers.1.mlp.act_fn.output"] == 4
    request.getfixturevalue("plain")
    model.interleaver.counts.clear()
    expected, expected_counts = steps(model)
    assert len(values) == len(expected) == 5
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(values, expected, strict=True))
    assert counts == expected_counts


def read_assigned_and_skipped(model: StandardizedTransformer) -> list[torch.Tensor]:
    """A place read, edited and assigned in one visit, a module skipped, an operation drilled into."""
    with torch.no_grad(), model.trace(IDS):
        stream = model.layers[0].layer_output
        stream[:, 0] = 1
        model.layers[0].layer_output = stream * 2
        model.layers[1].mlp.skip(stream)
        pattern = model.layers[2].self_attn.attention_probabilities
        pattern[:, 0] = 0
        pattern.save()
        after = model.layers[2].layer_output.save()
        logits = model.logits.save()
    return [pattern, after, logits]


def stopped(model: StandardizedTransformer) -> list[torch.Tensor]:
    with torch.no_grad(), model.trace(IDS) as tracer:
        stream = model.layers[1].layer_output.save()
        tracer.stop()
    return [stream]


@pytest.mark.parametrize("run", [read_assigned_and_skipped, stopped])
def test_the_only_trace_code_of_a_run_is_served_as_nnsight_serves_several(
    model: StandardizedTransformer, run: Callable[..., list[torch.Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts() -> dict[str, int]:
        return {place: model.interleaver.counts[place] for place in model.interleaver.spots}

    found, reached = run(model), counts()
    monkeypatch.setattr(Watching, "handle", Interleaver.handle)
    expected = run(model)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, expected, strict=True))
    assert reached == counts()
    assert set(reached.values()) == {0, 1}


def test_whoever_waits_at_a_child_may_ask_for_an_operation_after_it(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace(IDS):
        alone = model.layers[1].self_attn.attention_probabilities.save()
    with torch.no_grad(), model.trace(IDS):
        gate = model.layers[1].self_attn.q_proj.output.save()
        after = model.layers[1].self_attn.attention_probabilities.save()
        premix = model.layers[1].self_attn.attention_premix.save()
    assert gate.shape[:2] == premix.shape[:2] == (1, 5)
    assert torch.equal(alone, after)


def test_an_edit_on_the_short_way_reaches_the_model(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace(IDS):
        before = model.logits.save()
    with torch.no_grad(), model.trace(IDS):
        model.layers[0].layer_output[:] = 0
        after = model.logits.save()
    assert not torch.equal(before, after)


def test_two_prompts_wait_at_different_places_of_one_call(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace() as tracer:
        with tracer.invoke(IDS):
            pattern = model.layers[0].self_attn.attention_probabilities.save()
        with tracer.invoke(IDS + 7):
            stream = model.layers[0].layer_output.save()
    with torch.no_grad(), model.trace(IDS):
        expected = model.layers[0].self_attn.attention_probabilities.save()
    with torch.no_grad(), model.trace(IDS + 7):
        expected_stream = model.layers[0].layer_output.save()
    assert torch.allclose(pattern, expected, atol=1e-6)
    assert torch.allclose(stream, expected_stream, atol=1e-5)


def test_a_call_that_trace_code_makes_itself_is_no_visit(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace(IDS):
        stream = model.layers[0].layer_output
        guess = model.project_on_vocab(stream).save()
        model.layers[2].mlp(stream)
        later = model.layers[2].mlp.output.save()
        logits = model.logits.save()
    with torch.no_grad(), model.trace(IDS):
        expected = model.layers[2].mlp.output.save()
        expected_logits = model.logits.save()
    assert torch.equal(later, expected)
    assert torch.equal(logits, expected_logits)
    assert not torch.equal(guess, logits)
    assert model.interleaver.counts[f"{model.layers[2].mlp.gate_proj.path}.output"] == 1


def test_a_cache_keeps_what_passes_and_the_next_run_keeps_nothing(model: StandardizedTransformer) -> None:
    with torch.no_grad(), model.trace(IDS) as tracer:
        cache = tracer.cache(modules=[model.layers[1].mlp.gate_proj, model.layers[2]]).save()
        stream = model.layers[2].layer_output.save()
    assert torch.equal(cache[model.layers[2].path].output, stream)
    assert cache[model.layers[1].mlp.gate_proj.path].output.shape == (1, 5, model.intermediate_size)
    with torch.no_grad(), model.trace(IDS):
        model.logits.save()
    assert not any(spot.before or spot.after for spot in model.interleaver.calls.values() if "layers" in spot.places[0])


def test_two_models_over_one_module_are_each_served_their_own(model: StandardizedTransformer) -> None:
    other = StandardizedTransformer(model._module, tokenizer=model.tokenizer)
    for each in (other, model, other):
        with torch.no_grad(), each.trace(IDS):
            gate = each.layers[1].mlp.gate_proj.output.save()
            pattern = each.layers[2].self_attn.attention_probabilities.save()
        assert gate.shape[:2] == (1, 5)
        assert pattern.shape == (1, each.num_heads, 5, 5)
