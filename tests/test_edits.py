"""`model.edit()`: an edit is of the model, so it is made in every forward of a run, on copies and in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, folder, full
from reading import blocks_with, has

from nnpedia import StandardizedTransformer
from nnpedia.errors import ModelError
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 3


def generated(model: Any, host: Any, name: str) -> list[torch.Tensor]:
    """A value in each forward of a generation."""
    options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False}
    found = []
    with torch.no_grad(), model.generate(PROMPT, **options) as tracer:
        for _ in tracer.iter[:STEPS]:
            found.append(getattr(host, name).clone())
    assert len(found) == STEPS
    return found


def mixed(family: str) -> tuple[str, str]:
    """A value that has its own layout."""
    return next(spot for spot in (("self_attn", "attention_premix"), ("linear_attn", "premix")) if has(family, *spot))


@each_family
def test_an_edit_is_made_in_every_forward(family: str) -> None:
    """Not of the prompt alone, with the tokens after it made by the model as it was."""
    model = full(family)
    host, name = mixed(family)
    layer = blocks_with(family, host, name)[0]
    clean = generated(model, host_at(model, layer, host), name)
    with model.edit() as (_, edited):
        getattr(host_at(edited, layer, host), name)[:] = 0
    assert not any(value.any() for value in generated(edited, host_at(edited, layer, host), name))
    assert all(value.any() for value in clean)
    for before, after in zip(clean, generated(model, host_at(model, layer, host), name), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("way", ["iter", "all"])
def test_an_edit_that_loops_itself_says_where_it_is_made(way: str) -> None:
    model = full("llama")
    with model.edit(inplace=True) as tracer:
        for step in tracer.iter[:2] if way == "iter" else tracer.all():
            model.layers[0].layer_output[:] *= step != 1
    try:
        found = generated(model, model.layers[0], "layer_output")
    finally:
        model.clear_edits()
    assert [bool(value.any()) for value in found] == [True, False, True]


def test_an_edit_of_the_prompts_positions_says_how_to_be_of_the_prompt_alone() -> None:
    model = full("llama")
    with model.edit() as (_, edited):
        edited.layers[0].layer_output[:, 3] = 0
    with torch.no_grad(), edited.trace(PROMPT):
        stream = edited.layers[0].layer_output.save()
    assert not stream[:, 3].any()
    with pytest.raises(IndexError) as caught:
        generated(edited, edited.layers[0], "layer_output")
    assert "for _ in tracer.iter[:1]" in caught.value.__notes__[0]
    with model.edit() as (tracer, edited):
        for _ in tracer.iter[:1]:
            edited.layers[0].layer_output[:, 3] = 0
    found = generated(edited, edited.layers[0], "layer_output")
    assert not found[0][:, 3].any()
    assert found[1].any()


def test_an_edit_without_an_effect_ends_with_its_run() -> None:
    model = full("llama")
    with model.edit() as (_, edited):
        _ = 1 + 1
    assert len(generated(edited, edited.layers[0], "layer_output")) == STEPS


def test_edits_stack_in_every_forward() -> None:
    model = full("llama")
    with model.edit() as (_, once):
        once.layers[0].layer_output[:] = 1
    with once.edit() as (_, twice):
        twice.layers[0].layer_output[:] += 1
    for edited, expected in ((once, 1), (twice, 2)):
        assert all((value == expected).all() for value in generated(edited, edited.layers[0], "layer_output"))


def test_a_copy_of_a_model_that_nothing_has_loaded_yet() -> None:
    """It reads every kind of value, and the model it came from stays clean and loads once."""
    model = StandardizedTransformer(folder("llama"), attn_implementation="eager")
    with model.edit() as (_, edited):
        edited.layers[0].self_attn.attention_premix[:] = 0
    with torch.no_grad():
        with edited.trace() as tracer:
            with tracer.invoke(PROMPT):
                premix = edited.layers[0].self_attn.attention_premix.save()
                scores = edited.layers[1].self_attn.attention_scores.save()
                size = edited.input_size.save()
            with tracer.invoke("One"):
                short = edited.layers[0].self_attn.attention_premix.save()
        with model.trace(PROMPT):
            clean = model.layers[0].self_attn.attention_premix.save()
    assert scores.shape == (1, model.num_heads, len(PROMPT), len(PROMPT))
    assert list(size) == [1, len(PROMPT)]
    assert not premix.any()
    assert not short.any()
    assert clean.any()
    assert model._module is edited._module


def test_a_part_is_edited_through_its_model() -> None:
    """An edit kept on a block would be made in no run of the model."""
    model = full("llama")
    for part in (model.layers[0], model.layers[0].self_attn):
        with pytest.raises(ModelError, match=r"^model\.layers\[0\].*write model\.edit\(\)"), part.edit(inplace=True):
            model.layers[0].layer_output[:] = 0
