"""Edits in place that would change nothing, or mean nothing, are refused; those that act go on acting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forged import FAMILIES, PROMPT, each_family, full, is_mixture, spec
from reading import blocks_with
from refusing import refused

from nnpedia.errors import LayoutError, ReadOnly
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS = {"max_new_tokens": 2, "min_new_tokens": 2, "do_sample": False}


def derived(family: str) -> list[tuple[str, str]]:
    """Every value that a reader works out and that cannot be assigned."""
    from nnpedia.readers import READERS

    return [
        (host, name)
        for host, table in spec(family).values.items()
        for name, value in table.items()
        if value.reader is not None and READERS[value.reader].write is None
    ]


def place(model: Any, family: str, host: str, name: str) -> Any:
    return model if host == "model" else host_at(model, blocks_with(family, host, name)[0], host)


def edit(value: Any) -> None:
    value[0] = 0


@each_family
def test_an_edit_in_place_of_a_derived_value_is_refused(family: str) -> None:
    """It is worked out of others: the experiment would run, and find no effect."""
    model = full(family)
    assert ("model", "next_token_probs") in derived(family)
    for host, name in derived(family):
        there = place(model, family, host, name)
        for go_on in (False, True):  # refused at the next request, and at the end of the block

            def run(there: Any = there, name: str = name, go_on: bool = go_on) -> None:
                with torch.no_grad(), model.trace(PROMPT):
                    edit(getattr(there, name))
                    if go_on:
                        _ = model.logits

            assert f"{name} is derived" in refused(ReadOnly, run)


def test_a_derived_value_is_read_and_computed_with_as_ever() -> None:
    model = full("mamba2")
    mixer = model.layers[0].linear_attn
    with torch.no_grad(), model.trace(PROMPT):
        states = mixer.states.save()
        mine = mixer.states.clone()
        mine[:] = 0
        size = model.input_size.save()
    assert states.any()
    states[:] = 0  # after the run it is the reader's own
    size.append(1)


def test_each_of_two_reads_of_a_derived_value_is_watched() -> None:
    model = full("mamba2")

    def run() -> None:
        with torch.no_grad(), model.trace(PROMPT):
            first, _ = model.layers[0].linear_attn.states, model.layers[0].linear_attn.states
            first[:] = 0

    assert "states is derived" in refused(ReadOnly, run)


@pytest.mark.parametrize("family", [family for family in FAMILIES if "recurrent" in spec(family).parts])
def test_in_a_step_of_a_generation_what_is_derived_there_is_refused_and_what_acts_acts(family: str) -> None:
    """A decode step has other places: a value may be derived in it alone."""
    model = full(family)
    for name in ("decays", "state_output", "states"):
        mixer = place(model, family, "linear_attn", name)
        value = getattr(type(mixer), name)
        is_derived = name == "states" or (
            value.decoded is not None and value.decoded.spec.reader == "mamba2.step_decays"
        )

        def run(mixer: Any = mixer, name: str = name) -> None:
            with torch.no_grad(), model.generate(PROMPT, **OPTIONS) as tracer:
                for step in tracer.iter[:2]:
                    found = getattr(mixer, name)
                    if step == 1:
                        edit(found)

        if is_derived:
            assert f"{name} is derived" in refused(ReadOnly, run)
        else:
            run()


def test_an_edit_that_is_kept_is_refused_in_each_run_and_the_model_stays_as_it_was() -> None:
    model = full("mamba2")
    with model.edit() as (_, edited):
        edited.layers[0].linear_attn.states[:] = 0

    def run() -> None:
        with torch.no_grad(), edited.trace(PROMPT):
            edited.logits.save()

    for _ in range(2):
        assert "states is derived" in refused(ReadOnly, run)
    with torch.no_grad(), model.trace(PROMPT):
        logits = model.logits.save()
    assert logits.isfinite().all()


# -- numbers that count something -----------------------------------------------------------------


@pytest.mark.parametrize("family", [family for family in FAMILIES if is_mixture(family)])
def test_an_expert_that_is_not_there_is_refused_and_each_that_is_may_be_chosen(family: str) -> None:
    """transformers passes over an expert beyond the last: the token would get no expert, and no error."""
    model = full(family)
    layer = blocks_with(family, "mlp", "expert_indices")[0]
    mlp, count = model.layers[layer].mlp, model.num_experts

    def choose(expert: int, assign: bool) -> torch.Tensor:
        found: list[torch.Tensor] = []
        with torch.no_grad(), model.trace(PROMPT):
            if assign:
                mlp.expert_indices = torch.full_like(mlp.expert_indices, expert)
            else:
                mlp.expert_indices[...] = expert
            found.append(model.logits.save())
        return found[0]

    for assign in (False, True):
        for expert in (count, 99, -1):
            text = refused(LayoutError, lambda expert=expert, assign=assign: choose(expert, assign))
            assert text == (
                f"model.layers[{layer}].mlp: expert_indices holds {expert}, and num_experts is {count}: "
                f"its numbers go from 0 to {count - 1}"
            )
    assert torch.equal(choose(count - 1, False), choose(count - 1, True))


def test_a_token_that_is_not_there_is_refused() -> None:
    model = full("llama")

    def run(token: int) -> None:
        with torch.no_grad(), model.trace(PROMPT):
            model.input_ids[:, 2] = token
            model.logits.save()

    run(model.vocab_size - 1)
    assert "input_ids holds 320, and vocab_size is 320" in refused(LayoutError, lambda: run(model.vocab_size))


def test_shapes_are_told_without_numbers_to_look_at() -> None:
    model = full("mixtral")
    with model.scan(PROMPT):
        mlp = model.layers[0].mlp
        mlp.expert_indices = mlp.expert_indices + 1
        shape = mlp.mlp_output.shape.save()
    assert shape[1] == len(PROMPT)


@pytest.mark.parametrize(
    ("family", "host", "name"),
    [
        ("granite", "mlp", "mlp_output"), ("granitemoe", "self_attn", "attention_output"),
        ("falcon", "mlp", "mlp_output"), ("llama4_text", "mlp", "shared_expert_output"),
    ],
)  # fmt: skip
def test_a_copy_is_put_back_only_when_it_was_edited_in_inference_mode_too(family: str, host: str, name: str) -> None:
    """Torch counts no edits there; putting back what was scaled to be read would round it."""
    model = full(family)
    there = place(model, family, host, name)
    with torch.inference_mode():
        with model.trace(PROMPT):
            clean = model.logits.save()
        with model.trace(PROMPT):
            value = getattr(there, name).save()
            after = model.logits.save()
        with model.trace(PROMPT):
            getattr(there, name)[:] = 0
            edited = model.logits.save()
    assert value.abs().max() > 0
    assert torch.equal(after, clean)
    assert not torch.equal(edited, clean)
