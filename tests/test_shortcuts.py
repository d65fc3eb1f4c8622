"""What a cold build does not do twice: a record says what it would say if everything had been done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import forged
import pytest
import torch

from nnpedia import introspect, observe, writes
from nnpedia.checkpoints import reference_config
from nnpedia.model import StandardizedTransformer
from nnpedia.observe import read, scan, spots_of
from nnpedia.sizes import block_sizes
from nnpedia.writes import LOGITS, HeadOnce, disturbance


def weightless(family: str) -> Any:
    """A family's first public checkpoint at full size."""
    public = forged.spec(family).checkpoints[0]
    return StandardizedTransformer(
        introspect.weightless(reference_config(forged.spec(family), public), public.dtype),
        families=forged.spec(family).folder.parent,
    )


def scanned(model: Any) -> dict[Any, str]:
    ids = torch.zeros(1, 8, dtype=torch.long)
    with introspect.probing(model):
        return {spot: str(value) for spot, value in scan(model, spots_of(model, [0]), ids).items()}


@pytest.mark.parametrize("family", ["mixtral", "gpt2", "mamba2"])
def test_shapes_on_the_meta_device_are_those_on_fake_tensors(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    faked: list[object] = []
    mode = observe.FakeTensorMode
    monkeypatch.setattr(observe, "FakeTensorMode", lambda **how: faked.append(how) or mode(**how))
    model = weightless(family)
    quick = scanned(model)
    assert not faked
    monkeypatch.setattr(torch.nn.Parameter, "is_meta", False, raising=False)
    assert scanned(model) == quick
    assert faked


def test_a_forward_that_needs_data_is_asked_of_fake_tensors() -> None:
    """The size of what `nonzero` gives depends on data: the meta device has no answer."""
    model = weightless("gpt2")
    head = model._module.lm_head
    hook = head.register_forward_hook(lambda module, args, output: output + torch.nonzero(args[0]).sum() * 0)
    try:
        found = scan(model, [LOGITS], torch.zeros(1, 8, dtype=torch.long))
    finally:
        hook.remove()
    assert found[LOGITS][0] == (1, 8, model.vocab_size)


@contextmanager
def asked_of_the_head(model: Any) -> Iterator[list[torch.Tensor]]:
    """Every product that the head's weight takes part in and that is worked out."""
    worked_out: list[torch.Tensor] = []
    weight = model._module.get_output_embeddings().weight

    class Counting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.linear and args[1] is weight:
                worked_out.append(args[0])
            return func(*args, **(kwargs or {}))

    with Counting():
        yield worked_out


def test_the_head_is_asked_once_of_one_input_and_again_of_another() -> None:
    model, spot = forged.load("llama"), (0, "layers", "layer_output")
    disturb = disturbance(model, spot)

    def in_place(value: torch.Tensor) -> None:
        value.copy_(disturb(value))

    edits = [None, torch.clone, disturb, in_place]
    runs = [{} if edit is None else {spot: edit} for edit in edits]
    plain = [read(model, [LOGITS], forged.PROMPT, edits=edit)[LOGITS] for edit in runs]
    with asked_of_the_head(model) as worked_out, HeadOnce(model._module.lm_head.weight):
        once = [read(model, [LOGITS], forged.PROMPT, edits=edit)[LOGITS] for edit in runs]
        assert len(worked_out) == 2
    assert all(torch.equal(one, other) for one, other in zip(plain, once, strict=True))
    assert not torch.equal(once[0], once[2])


def test_an_edit_of_what_the_head_gave_is_not_given_again() -> None:
    model, spot = forged.load("llama"), (None, "model", "lm_head_output")

    def silence(value: torch.Tensor) -> None:
        value.zero_()

    with HeadOnce(model._module.lm_head.weight):
        before = read(model, [LOGITS], forged.PROMPT)[LOGITS]
        read(model, [LOGITS], forged.PROMPT, edits={spot: silence})
        after = read(model, [LOGITS], forged.PROMPT)[LOGITS]
    assert before.abs().max() > 0
    assert torch.equal(before, after)


def test_tries_of_writes_say_what_they_say_with_a_head_that_is_always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    model = forged.load("llama")

    def tried() -> list[Any]:
        head, found = HeadOnce(model._module.lm_head.weight), []
        with head:
            clean = read(model, [LOGITS], forged.PROMPT)[LOGITS]
        for spot in spots_of(model, [0]):
            with head:
                found.append(writes.try_write(model, spot, forged.PROMPT, clean))
        return found

    once = tried()
    monkeypatch.setattr(HeadOnce, "__torch_function__", lambda self, f, types, a=(), k=None: f(*a, **(k or {})))
    assert tried() == once


def test_a_large_head_is_asked_once_and_a_small_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = forged.load("llama")
    assert not isinstance(writes.head_once(model), HeadOnce)
    monkeypatch.setattr(writes, "LARGE", 1)
    assert isinstance(writes.head_once(model), HeadOnce)


def test_a_load_that_is_the_default_one_is_loaded_once() -> None:
    family = forged.spec("olmoe")
    load = introspect.loader(family)
    default = load({}, "forge")
    assert load(default.load_options(), "forge") is default
    other = load({"attn_implementation": "eager"}, "forge")
    assert other is not default
    assert other.load_options()["attn_implementation"] == "eager" != default.load_options()["attn_implementation"]
    assert other.tokenizer is default.tokenizer


def test_sizes_of_a_block_stand_in_the_order_of_the_vocabulary() -> None:
    """A record's bytes are the same in every run; the order of a set of names is not."""
    model = forged.load("gemma4_text")
    found = list(block_sizes(model, 0))
    assert len(found) > 2
    own = [axis for axis in model.family.vocabulary.axes if axis in found]
    assert found == own
