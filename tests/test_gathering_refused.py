"""What `model.every` does not give: names, numbers and edits that are refused, and the blocks that lack a value."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forged import PROMPT, full, load
from gathered import PATTERNS, RESIDUALS, at_once

from nnpedia import OutsideTrace, ReadOnly, ReadTooLate, Unavailable
from nnpedia.errors import ModelError, NoSuchBlock

pytestmark = pytest.mark.usefixtures("one_thread")


def test_in_inference_mode_an_edit_in_place_is_lost_alike_in_every_block() -> None:
    model = full("llama")
    with torch.inference_mode():
        with model.trace(PROMPT):
            clean = model.logits.save()
        for layer in range(model.num_layers):
            with model.trace(PROMPT):
                model.every(RESIDUALS)[layer][:] = 0
                after = model.logits.save()
            assert torch.equal(after, clean)


def test_only_some_blocks_and_only_those_that_have_it() -> None:
    model = full("jamba")
    attending = [layer for layer, block in enumerate(model.layers) if hasattr(block, "self_attn")]
    assert 0 < len(attending) < model.num_layers
    assert list(at_once(model, PATTERNS)) == attending
    llama = full("llama")
    assert list(at_once(llama, RESIDUALS, layers=[-1, 0, 0])) == [0, llama.num_layers - 1]
    assert at_once(llama, RESIDUALS, layers=[]) == {}
    with pytest.raises(NoSuchBlock, match="there is no block 99"):
        at_once(llama, RESIDUALS, layers=[0, 99])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("layers.layer_outptu", r"'layers\.layer_outptu' is no value of a block; did you mean 'layers\.layer_output'"),
        ("layer_output", r"'layer_output' is no value of a block; did you mean 'layers\.layer_output'"),
        ("model.logits", r"'model\.logits' is a value of the model.*model\.values\(\)"),
    ],
)
def test_a_name_that_no_block_has(name: str, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        at_once(full("llama"), name)


def test_what_reading_a_block_raises() -> None:
    model = load("llama", attn_implementation="sdpa")
    with pytest.raises(Unavailable, match="eager"):
        at_once(model, PATTERNS)
    with pytest.raises(OutsideTrace, match=r"layers\.layer_output exists only while the model runs"):
        model.every(RESIDUALS)
    with pytest.raises(ReadTooLate, match=r"layers\[0\]: layer_output was asked for after model\.layers\[1\]"):
        after_the_second(model)


@pytest.mark.parametrize(
    ("name", "layers", "told"),
    [
        (RESIDUALS, 5, r"layers are numbers of blocks, such as range\(4\).*and this is 5"),
        (RESIDUALS, "01", "layers are numbers of blocks.*and this is '01'"),
        (RESIDUALS, [slice(0, 2)], "there is a slice"),
        (None, None, "None is no value of a block"),
    ],
)
def test_what_is_no_number_and_no_name_is_told(name: Any, layers: Any, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        at_once(full("llama"), name, layers=layers)


def after_the_second(model: Any) -> None:
    with model.trace(PROMPT):
        _ = model.layers[1].layer_output
        _ = model.every(RESIDUALS)


def edited(model: Any, layer: int) -> None:
    with model.trace(PROMPT):
        model.every(RESIDUALS)[layer][:] = 0
        _ = model.logits


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_an_edit_in_place_is_refused(layer: int) -> None:
    model = full("llama")
    assert model.num_layers == 3
    with torch.no_grad(), pytest.raises(ReadOnly, match="assign it block by block"):
        edited(model, layer)
