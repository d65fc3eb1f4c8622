"""What every family's page says, put to its forged checkpoint. A family joins by having a folder."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from forged import PROMPT, each_family, encoded, folder, full, is_mixture, load, spec

pytestmark = pytest.mark.usefixtures("one_thread")


def everything(model: Any, prompt: str = PROMPT) -> dict[Any, Any]:
    """Every value of every block in one forward, errors included."""
    from nnpedia.observe import read, spots_of

    return read(model, spots_of(model), prompt)


# -- the oracle ---------------------------------------------------------------------------------


def experts_choices(family: str) -> list[tuple[str | None, str | None]]:
    """The library's experts implementation, and the oracle's that computes the same."""
    return [("batched_mm", "oracle"), ("eager", "eager"), ("grouped_mm", "grouped_mm")] if is_mixture(family) else [(None, None)]


@each_family
def test_every_value_is_the_one_an_independent_forward_gives(family: str) -> None:
    """Bit for bit, on every block, under eager attention and each way to run experts."""
    for ours, theirs in experts_choices(family):
        model = load(family, attn_implementation="eager", **({"experts_implementation": ours} if ours else {}))
        expected = oracle.answers(oracle.record(oracle.load(folder(family), theirs), encoded(model, PROMPT)))
        found = {spot: value for spot, value in everything(model).items() if not isinstance(value, Exception)}
        wrong = {spot: _difference(found[spot], value) for spot, value in expected.items() if spot in found}
        assert {spot: text for spot, text in wrong.items() if text} == {}
        # Neither side may leave a value out: not the oracle, by a mechanism half described,
        # nor the library, by an error where there is a value.
        assert set(found) - set(expected) == ({spot for spot in found if spot[2] == "expert_outputs"} if theirs == "grouped_mm" else set())
        assert set(expected) - set(found) == set()


def _difference(found: Any, expected: Any) -> str | None:
    if not isinstance(expected, torch.Tensor):
        return None if found == expected else f"{found} is not {expected}"
    if found.shape != expected.shape:
        return f"{list(found.shape)} is not {list(expected.shape)}"
    return None if torch.equal(found, expected) else f"off by {(found - expected).abs().max():.3g}"
