"""`model.every`: one value of many blocks at once is what reading it block by block gives, or the same error."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, full
from gathered import PATTERNS, RESIDUALS, at_once, one_by_one, same
from nnsight.intervention.interleaver import Mediator
from reading import everything

from nnpedia import StandardizedTransformer
from nnpedia.holding import PATHS

pytestmark = pytest.mark.usefixtures("one_thread")

ALIKE = (RESIDUALS, PATTERNS, "layers.layer_input", "self_attn.attention_queries", "mlp.mlp_neurons")


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that the model's side goes on with the trace code."""
    seen: list[None] = []
    switch = Mediator.switch

    def counted(mediator: Mediator, *values: Any) -> Any:
        seen.append(None)
        return switch(mediator, *values)

    monkeypatch.setattr(Mediator, "switch", counted)
    return seen


@each_family
def test_of_every_family_each_value_is_that_of_the_blocks(family: str) -> None:
    model = full(family)
    alone: dict[str, dict[int, torch.Tensor]] = {}
    for (layer, host, name), value in everything(model).items():
        if host in PATHS and isinstance(value, torch.Tensor):
            alone.setdefault(f"{host}.{name}", {})[layer] = value
    assert RESIDUALS in alone
    with torch.no_grad():
        for name, values in alone.items():
            assert same(at_once(model, name), values), name


@pytest.mark.parametrize("name", [RESIDUALS, PATTERNS, "mlp.mlp_output"])
def test_the_trace_code_waits_for_the_first_and_the_last_block(name: str, switches: list[None]) -> None:
    model = StandardizedTransformer("llama:forge", attn_implementation="eager")
    with torch.no_grad():
        values = one_by_one(model, name)
        assert len(values) > 2
        switches.clear()
        assert same(at_once(model, name), values)
        both = 2 if name == PATTERNS else 1  # a function inside of which the pattern is made is asked for first
        assert len(switches) == 1 + 2 * both


@pytest.mark.parametrize("name", ALIKE)
def test_the_first_time_of_a_model_too(name: str) -> None:
    model = StandardizedTransformer("llama:forge", attn_implementation="eager")
    with torch.no_grad():
        first, again = at_once(model, name), at_once(model, name)
        assert same(first, again)
        assert same(first, one_by_one(model, name))


def rows(model: Any) -> dict[int, torch.Tensor]:
    with model.trace() as tracer:
        with tracer.invoke("One"):
            _ = model.every(RESIDUALS)
        with tracer.invoke(PROMPT):
            found = model.every(RESIDUALS).save()
    return dict(found)


def rows_alone(model: Any) -> dict[int, torch.Tensor]:
    found = {}
    with model.trace() as tracer:
        with tracer.invoke("One"):
            _ = model.layers[0].layer_output
        with tracer.invoke(PROMPT):
            for layer, block in enumerate(model.layers):
                found[layer] = block.layer_output.save()
    return found


def cached(model: Any) -> dict[int, torch.Tensor]:
    with model.trace(PROMPT) as tracer:
        kept = tracer.cache(modules=[model.layers[1]])
        found = model.every(RESIDUALS).save()
    assert torch.equal(kept["model.model.layers.1"].output, found[1])
    return dict(found)


def third_step(model: Any) -> dict[int, torch.Tensor]:
    with model.generate(PROMPT, max_new_tokens=4, min_new_tokens=4, do_sample=False) as tracer:
        for step in tracer.iter[:4]:
            here = model.every(PATTERNS)
            if step == 2:
                found = here.save()
    return dict(found)


def third_step_alone(model: Any) -> dict[int, torch.Tensor]:
    found = {}
    with model.generate(PROMPT, max_new_tokens=4, min_new_tokens=4, do_sample=False) as tracer:
        for _ in tracer.iter[2]:
            for layer, block in enumerate(model.layers):
                found[layer] = block.self_attn.attention_probabilities.save()
    return found


def pinned(model: Any) -> dict[int, torch.Tensor]:
    with model.generate(PROMPT, max_new_tokens=4, min_new_tokens=4, do_sample=False) as tracer:
        for _ in tracer.iter[2]:
            found = model.every(PATTERNS).save()
    return dict(found)


def edited(place: str, together: bool) -> Callable[[Any], dict[int, torch.Tensor]]:
    """A run that reads all residuals after it has assigned to a value of the first block."""

    def run(model: Any) -> dict[int, torch.Tensor]:
        first = model.layers[0]
        with model.trace(PROMPT):
            setattr(first, place, 3 * getattr(first, place))
            if together:
                found = model.every(RESIDUALS).save()
            else:
                found = dict(enumerate([block.layer_output for block in model.layers])).save()
        return dict(found)

    run.__name__ = f"{place} edited"
    return run


@pytest.mark.parametrize(
    ("together", "alone"),
    [
        (rows, rows_alone), (cached, lambda model: one_by_one(model, RESIDUALS)), (third_step, third_step_alone),
        (pinned, third_step_alone), (edited("layer_input", True), edited("layer_input", False)),
        (edited("layer_output", True), edited("layer_output", False)),  # in the visit of the first block
    ],
    ids=lambda each: each.__name__,
)  # fmt: skip
@pytest.mark.parametrize("family", ["llama", "qwen2_moe"])
def test_beside_others_in_steps_and_after_edits(family: str, together: Callable[..., Any], alone: Any) -> None:
    model = full(family)
    with torch.no_grad():
        for name in (RESIDUALS, PATTERNS):
            one_by_one(model, name)  # only what a run has found before is put aside
        assert same(together(model), alone(model))


def gradients(model: Any, name: str) -> dict[int, torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    with model.trace(PROMPT):
        values = model.every(name)
        loss = model.logits.sum()
        with loss.backward():
            for layer in reversed(values):
                found[layer] = values[layer].grad.save()
    return found


def gradients_alone(model: Any, name: str) -> dict[int, torch.Tensor]:
    host, value = name.split(".")
    found: dict[int, torch.Tensor] = {}
    with model.trace(PROMPT):
        values = [getattr(block if host == "layers" else getattr(block, host), value) for block in model.layers]
        loss = model.logits.sum()
        with loss.backward():
            for layer in reversed(range(len(values))):
                found[layer] = values[layer].grad.save()
    return found


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("llama", RESIDUALS), ("llama", PATTERNS), ("llama", "self_attn.attention_queries"),
        ("bloom", "self_attn.attention_head_outputs"), ("granite", "mlp.mlp_output"), ("opt", "mlp.mlp_output"),
    ],
)  # fmt: skip
def test_a_gradient_flows_into_each(family: str, name: str) -> None:
    model = full(family)
    assert model.num_layers > 2
    one_by_one(model, name)
    found = gradients(model, name)
    assert len(found) == model.num_layers
    assert same(found, gradients_alone(model, name))


def test_a_function_that_is_another_one_is_looked_inside_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is made in a function that the attention calls, and which one that is may change between runs."""
    model = StandardizedTransformer("llama:forge", attn_implementation="eager")
    with torch.no_grad():
        values = at_once(model, PATTERNS)
        module = importlib.import_module("transformers.models.llama.modeling_llama")
        eager = module.eager_attention_forward
        blind = {**eager.__globals__, "repeat_kv": lambda states, times: 0 * module.repeat_kv(states, times)}
        monkeypatch.setattr(
            module, "eager_attention_forward", FunctionType(eager.__code__, blind, eager.__name__, (0.0,))
        )
        uniform = at_once(model, PATTERNS)
        assert all(bool((pattern[0, :, -1] == pattern[0, :, -1, :1]).all()) for pattern in uniform.values())
        assert not same(uniform, values)
        monkeypatch.undo()
        assert same(at_once(model, PATTERNS), values)


@pytest.mark.parametrize("name", [PATTERNS, "layers.layer_mid"])
def test_a_forward_that_nnsight_has_opened_since(name: str) -> None:
    model = StandardizedTransformer("llama:forge", attn_implementation="eager")
    with torch.no_grad():
        values = one_by_one(model, name)
        assert same(at_once(model, name), values)
        _ = model.layers[1].self_attn.source, model.layers[1].source
        assert same(at_once(model, name), values)
        assert same(one_by_one(model, name), values)
