"""What a hurried hand gives the library: checkpoints, devices, names, blocks. One line says what is wrong."""

from __future__ import annotations

import copy
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, folder, full
from refusing import refused

from nnpedia import CheckpointError, NoSuchBlock, StandardizedTransformer
from nnpedia.errors import ModelError

pytestmark = pytest.mark.usefixtures("one_thread")


# -- checkpoints and devices --------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["", " ", None, 5, [], b"gpt2", {}])
def test_what_names_no_checkpoint_is_told_what_does(nothing: Any) -> None:
    assert "names no checkpoint: give a folder, a Hub id" in refused(
        CheckpointError, lambda: StandardizedTransformer(nothing)
    )


def test_a_file_a_family_and_a_name_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for named in (file, str(file), file.name):
        assert "is a file, not a folder: give the folder" in refused(
            CheckpointError, lambda named=named: StandardizedTransformer(named)
        )
    assert refused(CheckpointError, lambda: StandardizedTransformer("llama")).endswith("there is llama:forge")
    assert "file name too long" in refused(CheckpointError, lambda: StandardizedTransformer("gpt2" * 400))
    assert "is a model already" in refused(CheckpointError, lambda: StandardizedTransformer(full("llama")))


def test_the_device_without_numbers_is_refused() -> None:
    for device in ("meta", torch.device("meta")):
        text = refused(ModelError, lambda device=device: StandardizedTransformer(folder("llama"), device=device))
        assert "model.scan(prompt) tells shapes" in text


@pytest.mark.parametrize("named", ["cuda", "cuda:0", 0, {"": "cuda"}, torch.device("cuda"), "banana"])
def test_a_device_map_to_what_is_not_there_blames_no_checkpoint(named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnpedia.device.accelerator", lambda: None)
    text = refused(ModelError, lambda: StandardizedTransformer(folder("llama"), device_map=named))
    assert "is not there (accelerators here: none)" in text or "there is no device 'banana'" in text
    assert "checkpoint" not in text


@pytest.mark.parametrize("named", ["cpu", "auto", {"": "cpu"}])
def test_a_device_map_to_what_is_there_goes_on_working(named: Any) -> None:
    model = StandardizedTransformer(folder("llama"), device_map=named)
    with torch.no_grad(), model.trace(PROMPT):
        logits = model.logits.save()
    assert logits.isfinite().all()


# -- names --------------------------------------------------------------------------------------


def test_a_standard_name_is_near_where_the_module_is_called_otherwise() -> None:
    """GPT-2's blocks are `h`, its attention is `attn`, and OPT has no module for its MLP."""
    for host, name, says in (
        (full("gpt2"), "layrs", "'layers'"),
        (full("gpt2").layers[0], "self_atn", "'self_attn'"),
        (full("gpt2").layers[0].self_attn, "o_porj", "'o_proj'"),
        (full("opt").layers[0], "mpl", "'mlp'"),
        (full("opt").layers[0].mlp, "mlp_outptu", "'mlp_output'"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(host, name)
        assert str(caught.value).endswith(f"has no {name!r}; did you mean {says}?")


def test_a_value_of_another_host_is_answered_with_its_place_once() -> None:
    """Nearest in letters is not nearest in meaning: a block has an attention_norm_output."""
    model = full("llama")
    block = model.layers[0]
    for ask, says in (
        (lambda: block.attention_output, "model.layers[0] has no 'attention_output'; it is model.layers[0].self_attn"),
        (lambda: model.attention_output, "model has no 'attention_output'; it is model.layers[i].self_attn."),
        (lambda: block.self_attn.layer_output, "has no 'layer_output'; it is model.layers[0].layer_output"),
        (lambda: block.mlp.logits, "model.layers[0].mlp has no 'logits'; it is model.logits"),
        (lambda: block.atention_output, "; did you mean model.layers[0].self_attn.attention_output?"),
        (lambda: block.layer_outptu, "; did you mean 'layer_output'?"),
        (lambda: model.layrs, "model has no 'layrs'; did you mean 'layers'?"),
        (lambda: model.nrom, "did you mean 'norm'?"),
        (lambda: model.project_on_vocb, "did you mean 'project_on_vocab'?"),
        (lambda: model.num_layer, "did you mean 'num_layers'?"),
        (lambda: block.self_atn, "model.layers[0] has no 'self_atn'; did you mean 'self_attn'?"),
        (lambda: block.self_attn.o_porj, "model.layers[0].self_attn has no 'o_porj'; did you mean 'o_proj'?"),
    ):
        with pytest.raises(AttributeError) as caught:
            ask()
        assert says in str(caught.value)
        shown = "".join(traceback.format_exception(caught.value)).splitlines()[-1]
        assert shown.endswith(str(caught.value))
        assert caught.value.obj is not None  # without it, newer Pythons fill in both and add a guess of their own
        assert caught.value.name is None
    with (
        pytest.raises(AttributeError, match=r"no 'attention_output' to assign to; it is model\.layers"),
        model.trace(PROMPT),
    ):
        block.attention_output = 0
    assert not hasattr(block, "attention_output")


@each_family
def test_every_value_is_answered_from_every_host(family: str) -> None:
    model = full(family)
    places = {"model": model, "layers": model.layers[0], "mlp": getattr(model.layers[0], "mlp", None)}
    for host, found in places.items():
        for other, table in model.family.values.items():
            missing = [name for name, spec in table.items() if spec.absent is None and other != host]
            missing = [name for name in missing if not hasattr(type(found), name)]  # a model has a method `values`
            for name in missing[:2] if found is not None else []:
                with pytest.raises(AttributeError, match=rf"; it is model.*\b{name}$"):
                    getattr(found, name)


# -- blocks -------------------------------------------------------------------------------------


@each_family
def test_a_block_that_is_not_there_is_told_which_are(family: str) -> None:
    model = full(family)
    count = model.num_layers
    for number in (count, count + 6, -count - 1):
        text = refused(NoSuchBlock, lambda number=number: model.layers[number])
        assert text == (
            f"model.layers: there is no block {number}; there are {count} blocks, "
            f"model.layers[0] to model.layers[{count - 1}]"
        )
    assert "'first' is none" in refused(NoSuchBlock, lambda: model.layers["first"])
    with pytest.raises(IndexError):  # as a list's would be
        _ = model.layers[count]
    with pytest.raises(NoSuchBlock), model.trace(PROMPT):
        _ = model.layers[count].layer_output


def test_support_of_a_block_that_is_not_there_is_told_which_are() -> None:
    model = full("llama")
    for number in (99, -99, "first"):
        text = refused(NoSuchBlock, lambda number=number: model.support(layer=number))
        assert f"there are {model.num_layers} blocks" in text
    assert model.support(layer=-1) == model.support(layer=model.num_layers - 1)


def test_blocks_are_counted_as_in_a_list() -> None:
    model = full("llama")
    blocks = list(model.layers)
    assert [model.layers[number] for number in (0, -1, torch.tensor(1), "2")] == [
        blocks[0],
        blocks[-1],
        blocks[1],
        blocks[2],
    ]
    assert model.layers[1:] == blocks[1:]
    assert len(blocks) == len(model.layers) == model.num_layers


# -- two at once --------------------------------------------------------------------------------


def test_a_run_inside_a_run_is_refused_and_the_next_is_as_ever() -> None:
    model = full("llama")
    with pytest.raises(ModelError, match=r"one run at a time: close the first trace"), model.trace(PROMPT):  # noqa: PT012
        _ = model.layers[0].layer_output
        with model.trace("One"):
            model.logits.save()
    with torch.no_grad(), model.trace(PROMPT):
        logits = model.logits.save()
    assert logits.shape[1] == len(PROMPT)


def test_a_copy_that_would_not_run_is_refused_and_one_of_the_module_runs() -> None:
    model = full("llama")
    assert "give StandardizedTransformer a copy of the module" in refused(ModelError, lambda: copy.deepcopy(model))
    other = StandardizedTransformer(copy.deepcopy(model._module), tokenizer=model.tokenizer)
    found = []
    for each in (model, other):
        with torch.no_grad(), each.trace(PROMPT):
            found.append(each.logits.clone().save())
    assert torch.equal(*found)
