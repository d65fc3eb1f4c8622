"""In a run of several forwards, a value is that of the step it is asked for in, or an error."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from forged import PROMPT, chooses_experts, each_family, folder, full, spec
from reading import everything, in_order, reading

from nnpedia import ReadTooLate, StandardizedTransformer, Unavailable
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 4
Found = dict[tuple[int, str], torch.Tensor]

#: One value read inside an operation's own function, one at an operation, one at a module.
NAMES = {
    "scores": [("self_attn", "attention_scores"), ("linear_attn", "decays")],
    # A block that adds both sublayers at once has no middle; one without an MLP has no input of one either.
    "middle": [("layers", "layer_mid"), ("layers", "mlp_input"), ("linear_attn", "premix")],
    "out": [("layers", "layer_output")],
}


def fresh(family: str) -> Any:
    """A model nothing was read on before: what a first read finds is what is tested."""
    options = {"attn_implementation": "eager"}
    return StandardizedTransformer(
        folder(family), **options, **({"experts_implementation": "batched_mm"} if chooses_experts(family) else {})
    )


def place(model: Any, name: str) -> tuple[str, str]:
    """The first place of `NAMES` that the last block has."""
    last = model.num_layers - 1
    return next(
        (host, value)
        for host, value in NAMES[name]
        if model.family.values[host][value].absent is None and host_at(model, last, host) is not None
    )


def read(model: Any, name: str) -> torch.Tensor:
    host, value = place(model, name)
    return getattr(host_at(model, model.num_layers - 1, host), value).clone()


def run(model: Any, body: Callable[[Any, int, Found], None], found: Found) -> list[str]:
    """Generate, with a body run in each step; the warnings that came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with model.generate(PROMPT, max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False) as tracer:
            for step in tracer.iter[:STEPS]:
                body(model, step, found)
    return [str(warning.message) for warning in caught if "never reached" in str(warning.message)]


def all_steps(family: str) -> Found:
    found: Found = {}

    def body(model: Any, step: int, found: Found) -> None:
        for name in NAMES:
            found[step, name] = read(model, name)

    assert run(full(family), body, found) == []
    assert len(found) == STEPS * len(NAMES)
    return found


@each_family
def test_a_first_trace_reads_everything_in_order(family: str) -> None:
    """Also what lies inside a block's forward, asked for when that forward has begun."""
    model = fresh(family)
    found: dict[Any, Any] = {}
    with model.trace(PROMPT):
        reading(model, in_order(model), found)
    expected = everything(full(family))
    assert set(found) == set(expected)
    for spot, value in found.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, expected[spot]), spot
        else:
            assert type(value) is type(expected[spot])


@each_family
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [0, 2])
def test_a_value_asked_for_in_one_step_only_is_that_steps(family: str, name: str, step: int) -> None:
    """Nothing of it was asked for in the steps before."""
    found: Found = {}

    def body(model: Any, now: int, found: Found) -> None:
        if now == step:
            found[now, name] = read(model, name)

    assert run(fresh(family), body, found) == []
    assert torch.equal(found[step, name], all_steps(family)[step, name])


@each_family
def test_a_value_first_asked_for_in_a_later_step_is_that_steps(family: str) -> None:
    """While another value is read in every step, before it or after it."""
    expected = all_steps(family)
    for first, second in (("scores", "out"), ("middle", "out"), ("scores", "middle")):
        found: Found = {}

        def body(model: Any, step: int, found: Found, first: str = first, second: str = second) -> None:
            if step >= 2:
                found[step, first] = read(model, first)
            found[step, second] = read(model, second)

        assert run(fresh(family), body, found) == []
        assert len(found) == STEPS + 2
        for key, value in found.items():
            assert torch.equal(value, expected[key]), key


@each_family
@pytest.mark.parametrize("late", ["scores", "middle"])
@pytest.mark.parametrize("step", [0, 1])
def test_a_value_the_step_has_passed_is_an_error_not_the_next_steps(family: str, late: str, step: int) -> None:
    for model in (fresh(family), full(family)):
        found: Found = {}

        def body(model: Any, now: int, found: Found) -> None:
            found[now, "out"] = read(model, "out")
            if now == step:
                found[now, late] = read(model, late)

        with pytest.raises(
            ReadTooLate, match=rf"{place(model, late)[1]} was asked for after model\.layers\[\d+\]\.layer_output"
        ):
            run(model, body, found)
        assert (step, late) not in found


def test_a_loop_longer_than_the_generation_keeps_what_it_read() -> None:
    """That is no error: an open loop ends so."""
    model = full("llama")
    streams: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with model.generate(PROMPT, max_new_tokens=2, min_new_tokens=2, do_sample=False) as tracer:
            for _step in tracer.iter[:]:
                streams.append(model.layers[1].layer_output.clone())
    assert any("never reached" in str(warning.message) for warning in caught)
    assert [stream.shape[1] for stream in streams] == [len(PROMPT), 1]


@each_family
def test_an_edit_in_one_step_is_made_in_that_step(family: str) -> None:
    """Step 2's stream is changed: the logits of steps 0 and 1 stay, those of step 2 move."""
    model = full(family)

    def logits(edited: bool) -> list[torch.Tensor]:
        kept: list[torch.Tensor] = []
        with torch.no_grad(), model.generate(PROMPT, max_new_tokens=3, min_new_tokens=3, do_sample=False) as tracer:
            for step in tracer.iter[:3]:
                if edited and step == 2:
                    model.layers[0].layer_input = -model.layers[0].layer_input
                kept.append(model.logits.clone())
        return kept

    clean, changed = logits(False), logits(True)
    assert [torch.equal(a, b) for a, b in zip(clean, changed, strict=True)] == [True, True, False]


@each_family
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_what_a_step_gave_is_not_written_over_by_the_next(family: str, cache: str) -> None:
    """A cache of a fixed length is one buffer, and keys and values are read out of it."""
    model = full(family)
    if cache == "static" and not model._module._can_compile_fullgraph:
        pytest.skip("transformers gives the class no static cache")
    kept: list[tuple[Any, torch.Tensor, torch.Tensor]] = []
    layer = model.num_layers - 1
    clean = everything(model)
    spots = [spot for spot in in_order(model) if spot[0] in (layer, None) and isinstance(clean[spot], torch.Tensor)]
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "use_cache": True}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    with torch.no_grad(), model.generate(PROMPT, **options) as tracer:
        for _step in tracer.iter[:3]:
            for spot in spots:
                with contextlib.suppress(Unavailable):  # a mask that generation leaves out
                    value = getattr(host_at(model, spot[0], spot[1]), spot[2])
                    kept.append((spot, value, value.clone()))
    assert len(kept) >= 3 * (len(spots) - 1)
    assert [spot for spot, value, then in kept if not torch.equal(value, then)] == []


@each_family
def test_a_kept_state_edited_in_place_is_the_state_of_the_next_step(family: str) -> None:
    """It is handed out as a copy, and goes back."""
    if spec(family).values.get("linear_attn", {"state_output": None}).get("state_output") is None:
        pytest.skip("no recurrent state")
    model = full(family)
    layer = next((n for n in range(model.num_layers) if host_at(model, n, "linear_attn") is not None), None)
    if layer is None:
        pytest.skip("no recurrent block in this checkpoint")
    host = host_at(model, layer, "linear_attn")

    def last_logits(way: str) -> torch.Tensor:
        options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "use_cache": True}
        with torch.no_grad(), model.generate(PROMPT, **options) as tracer:
            for step in tracer.iter[:3]:
                if step == 1 and way == "in place":
                    host.state_output[:] *= 0.5
                    host.state_output[:] *= 0.5
                elif step == 1 and way == "assigned":
                    host.state_output = host.state_output * 0.25
                logits = model.logits.clone().save()
        return logits

    edited = last_logits("in place")
    assert torch.equal(edited, last_logits("assigned"))
    assert not torch.equal(edited, last_logits("not at all"))
