"""Other ways to run a model: generation, gradients, default edits, sessions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, full, spec
from reading import epsilons, everything

from nnpedia.introspect import block_kinds, root_facts
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")


@each_family
def test_an_edit_changes_what_is_generated(family: str) -> None:
    """The last block's stream replaced by an embedding of the head: that token is what comes."""
    model = full(family)
    wanted = 77
    with torch.no_grad(), model.generate(PROMPT, max_new_tokens=2, min_new_tokens=2, do_sample=False) as tracer:
        for step in tracer.iter[:2]:
            if step == 1:
                chosen = torch.full_like(model.logits, -50.0)
                chosen[..., wanted] = 50.0
                model.logits = chosen
        tokens = tracer.result.save()
    with torch.no_grad(), model.generate(PROMPT, max_new_tokens=2, min_new_tokens=2, do_sample=False) as tracer:
        clean = tracer.result.save()
    assert tokens[0, -1] == wanted
    assert clean[0, -1] != wanted
    assert torch.equal(tokens[0, :-1], clean[0, :-1])


@each_family
def test_each_step_reads_the_step(family: str) -> None:
    """The generated token is the most probable one of the step's own distribution."""
    model = full(family)
    most: list[int] = []
    sizes: list[Any] = []
    # some configs keep no cache unless they are told to, and then every step runs the whole prompt
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "use_cache": True}
    with torch.no_grad(), model.generate(PROMPT, **options) as tracer:
        for _step in tracer.iter[:3]:
            sizes.append(model.input_size)
            most.append(int(model.next_token_probs.argmax()))
        tokens = tracer.result.save()
    assert sizes == [[1, len(PROMPT)], [1, 1], [1, 1]]
    assert tokens[0, -3:].tolist() == most


@each_family
def test_gradients_reach_every_value(family: str) -> None:
    """`.grad` of a value is the derivative of the loss: what a small step along it changes the loss by."""
    model = full(family)
    wrong = {}
    for spot in gradient_spots(family):
        host = host_at(model, spot[0], spot[1])
        name = spot[2]
        try:
            with model.trace(PROMPT):
                value = getattr(host, name)
                loss = model.logits[0, -1, 65].save()
                with loss.backward():
                    gradient = value.grad.clone().save()
        except Exception as error:
            wrong[spot] = str(error)
            continue
        if gradient.shape != everything(model)[spot].shape or not gradient.abs().sum() > 0:
            wrong[spot] = list(gradient.shape)
            continue
        slope = slope_along(model, host, name, gradient / gradient.norm())
        if not abs(slope - gradient.norm().item()) < 0.1 * gradient.norm().item() + 1e-2:
            wrong[spot] = f"{slope:.4g} is not {gradient.norm():.4g}"
    assert wrong == {}
    model._module.zero_grad()


def slope_along(model: Any, host: Any, name: str, direction: torch.Tensor, size: float = 5e-4) -> float:
    """What a small step along a direction, from a value assigned on either side, changes the loss by."""
    losses = []
    for step in (size, -size):
        with torch.no_grad(), model.trace(PROMPT):
            setattr(host, name, getattr(host, name) + step * direction)
            loss = model.logits[0, -1, 65].save()
        losses.append(loss.item())
    return (losses[0] - losses[1]) / (2 * size)


def gradient_spots(family: str) -> list[tuple[int | None, str, str]]:
    """The floating values of the last block but one that the answer depends on smoothly."""
    model = full(family)
    layer = max(model.num_layers - 2, 0)
    steep = {"attention_scores", "expert_outputs", "router_logits"}
    return [
        spot
        for spot, value in everything(model).items()
        if isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and spot[0] in (layer, None)
        and spot[2] not in steep
        and spec(family).values[spot[1]][spot[2]].at is not None
        and spec(family).values[spot[1]][spot[2]].reaches == "logits"
    ]


@each_family
def test_a_default_edit_is_made_in_every_run_until_it_is_cleared(family: str) -> None:
    model = full(family)
    clean = everything(model)[None, "model", "logits"]
    with torch.no_grad():
        with model.trace(PROMPT):
            model.layers[0].layer_output = -model.layers[0].layer_output
            expected = model.logits.clone().save()
        with model.edit() as (_, edited):
            edited.layers[0].layer_output = -edited.layers[0].layer_output
        for _ in range(2):
            with edited.trace(PROMPT):
                found = edited.logits.clone().save()
            assert torch.equal(found, expected)
        with model.trace(PROMPT):
            untouched = model.logits.clone().save()
        assert torch.equal(untouched, clean)
        with model.edit(inplace=True):
            model.layers[0].layer_output = -model.layers[0].layer_output
        try:
            with model.trace(PROMPT):
                found = model.logits.clone().save()
        finally:
            model.clear_edits()
        assert torch.equal(found, expected)
        with model.trace(PROMPT):
            cleared = model.logits.clone().save()
        assert torch.equal(cleared, clean)
    assert not torch.equal(expected, clean)


def test_values_pass_between_the_traces_of_a_session() -> None:
    """A stream taken in one trace is put into the next."""
    model = full("llama")
    with torch.no_grad(), model.session():
        with model.trace(PROMPT[::-1]):
            stream = model.layers[0].layer_output.clone()
            expected = model.logits.clone().save()
        with model.trace(PROMPT):
            model.layers[0].layer_output = stream
            patched = model.logits.clone().save()
    assert torch.equal(patched, expected)
    assert not torch.equal(patched, everything(model)[None, "model", "logits"])


def test_a_failing_trace_leaves_the_model_usable() -> None:
    model = full("llama")
    with pytest.raises(ZeroDivisionError), model.trace(PROMPT):
        _ = model.layers[0].layer_output * (1 / 0)
    with model.trace(PROMPT):
        logits = model.logits.clone().save()
    assert torch.equal(logits, everything(model)[None, "model", "logits"])


@each_family
def test_token_ids_and_masks_can_be_given_instead_of_text(family: str) -> None:
    from forged import encoded

    model = full(family)
    inputs = encoded(model, PROMPT)
    for arguments, keywords in (((inputs["input_ids"],), {}), ((), inputs), ((inputs,), {})):
        with torch.no_grad(), model.trace(*arguments, **keywords):
            ids = model.input_ids.clone().save()
            logits = model.logits.clone().save()
        assert torch.equal(ids, inputs["input_ids"])
        assert torch.equal(logits, everything(model)[None, "model", "logits"])


@each_family
def test_an_invokes_gradient_is_its_prompts(family: str) -> None:
    """One of two invokes asks for a gradient: it is the one the prompt has alone, in the value's own layout."""
    model = full(family)
    spots = [
        spot
        for spot in gradient_spots(family)
        if spot[2] in ("layer_output", "mlp_input", "attention_premix", "attention_values", "expert_weights")
    ]
    assert spots
    for spot in spots:
        host, name = host_at(model, spot[0], spot[1]), spot[2]
        with model.trace(PROMPT):
            value = getattr(host, name)
            loss = model.logits[0, -1, 65]
            with loss.backward():
                alone = value.grad.clone().save()
        with model.trace() as tracer:
            with tracer.invoke("Two plus two"):
                _ = model.logits
            with tracer.invoke(PROMPT):
                value = getattr(host, name)
                loss = model.logits[0, -1, 65]
                with loss.backward():
                    together = value.grad.clone().save()
        assert epsilons(together, alone) < 64, spot
    model._module.zero_grad()


def test_a_host_s_modules_are_told_by_their_native_names() -> None:
    told = {
        (family, host.name): host.modules
        for family in ("gpt2", "opt", "qwen3_moe")
        for host in [*root_facts(full(family)), *block_kinds(full(family))[0].hosts]
    }
    assert told["gpt2", "model"]["transformer.wte"] == "embed_tokens"
    assert told["gpt2", "self_attn"]["c_proj"] == "o_proj"
    assert told["opt", "mlp"]["fc2"] == "down_proj"  # read on the block, and named as the block names it
    assert told["qwen3_moe", "mlp"]["gate"] == "router"
    assert "c_fc" not in told["opt", "mlp"]  # a name of the base's, which this family has no module for
