"""States of recurrent mixers: what padding does to them, and where an edit of one goes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from forged import FAMILIES, PROMPT, full, spec
from reading import epsilons
from test_batches import ROUNDING_OF_RECURRENCES, SHORT, padding

pytestmark = pytest.mark.usefixtures("one_thread")

each_recurrent = pytest.mark.parametrize("family", [name for name in FAMILIES if "recurrent" in spec(name).parts])


@each_recurrent
def test_padding_after_a_prompt_lets_its_state_fade(family: str) -> None:
    """Padding writes nothing but what a convolution of four tokens brings; after a prompt the state still decays."""
    from nnpedia.observe import read, spots_of

    model = full(family)
    pair = [PROMPT, SHORT]
    with padding(model, "right"):
        right = read(model, spots_of(model), pair)
    with padding(model, "left"):
        left = read(model, spots_of(model), pair)
    layers = [spot[0] for spot, value in right.items() if spot[2] == "states" and isinstance(value, torch.Tensor)]
    assert layers
    for layer in layers:
        states, decays, end = (right[layer, "linear_attn", name][1] for name in ("states", "decays", "state_output"))
        silent = len(SHORT) + 3
        factor = decays[silent:].sum(0).exp()
        factor = factor if factor.shape == end.shape else factor[:, None, None]
        assert epsilons(states[silent - 1] * factor, end) < ROUNDING_OF_RECURRENCES
        assert epsilons(states[len(SHORT) - 1], end) > 1000
        assert not left[layer, "linear_attn", "states"][1, : len(PROMPT) - len(SHORT)].any()


@each_recurrent
def test_a_state_edited_in_one_row_is_that_rows_in_the_cache(family: str) -> None:
    """What the cache keeps of row 1 is what was assigned; of row 0, what it was. The logits do not move."""
    from nnpedia.calls import CACHES
    from nnpedia.observe import host_at, observe

    model = full(family)
    layer = next(layer for layer in range(model.num_layers) if host_at(model, layer, "linear_attn") is not None)

    def run(edit: bool) -> tuple[torch.Tensor, torch.Tensor]:
        found: list[Any] = []

        def task() -> None:
            host = host_at(model, layer, "linear_attn")
            if edit:
                state = host.state_output.clone()
                state[1] = 1.0
                host.state_output = state
            found.append(model.output)

        with torch.no_grad():
            observe(model, [task], [PROMPT, SHORT])
        output = found[0]
        cache = next(output[name] for name in CACHES if name in output)
        return cache.layers[layer].recurrent_states[0].clone(), output.logits

    (clean, logits), (edited, unmoved) = run(False), run(True)
    assert torch.equal(edited[0], clean[0])
    assert (edited[1] == 1).all()
    assert not torch.equal(clean[1], edited[1])
    assert torch.equal(logits, unmoved)
