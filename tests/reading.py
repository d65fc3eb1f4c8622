"""Reading a whole forward at once, and comparing what it gave."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from forged import PROMPT, full, spec

Spot = tuple[int | None, str, str]


@cache
def everything(model: Any, prompt: str = PROMPT) -> Mapping[Any, Any]:
    """Every value of every block in one forward, errors included; read once per model and prompt."""
    from nnpedia.observe import read, spots_of

    return MappingProxyType(read(model, spots_of(model), prompt))


def epsilons(left: torch.Tensor, right: torch.Tensor) -> float:
    """Largest difference, in epsilons of the dtype times the largest finite magnitude of the two."""
    assert left.shape == right.shape
    if torch.equal(left, right):
        return 0.0
    if not left.is_floating_point():
        return float("inf")
    masked = torch.finfo(left.dtype).min / 2
    assert torch.equal(left < masked, right < masked)
    left, right = left.masked_fill(left < masked, 0), right.masked_fill(right < masked, 0)
    scale = max(left.abs().max().item(), right.abs().max().item())
    return (left - right).abs().max().item() / (torch.finfo(left.dtype).eps * scale)


def has(family: str, host: str, *names: str) -> bool:
    return all(spec(family).values[host][name].absent is None for name in names)


def law_holds(family: str, host: str, name: str) -> bool:
    from nnpedia.laws import applies

    law = spec(family).laws[host][name]
    return law.exception is None and applies(law, host, spec(family).values, spec(family).lender is not None)


def as_usual(family: str, host: str, name: str) -> bool:
    """Whether a law holds and reads as the vocabulary has it."""
    usual = spec(family).vocabulary.laws[host][name].formula
    return law_holds(family, host, name) and spec(family).laws[host][name].formula == usual


def blocks_with(family: str, host: str, name: str) -> list[int]:
    """The blocks that have a value: the first and the last of them, to see both ends of the stream."""
    have = [
        spot[0]
        for spot, value in everything(full(family)).items()
        if spot[1:] == (host, name) and isinstance(value, torch.Tensor)
    ]
    return have[:1] + have[1:][-1:]


def in_order(model: Any) -> list[Spot]:
    """Every value in the order one forward reaches it, block by block."""
    names = [name.split(".") for name in model.forward_order()]
    block = [(host, name) for host, name in names if host != "model"]
    first = next(index for index, (host, _) in enumerate(names) if host != "model")
    root: list[Spot] = [(None, host, name) for host, name in names if host == "model"]
    layers: list[Spot] = [(layer, host, name) for layer in range(model.num_layers) for host, name in block]
    return [*root[:first], *layers, *root[first:]]


def reading(model: Any, spots: list[Spot], found: dict[Spot, Any]) -> None:
    """Read inside a trace, keeping copies; a value this block lacks keeps its error."""
    from nnpedia.errors import Unavailable
    from nnpedia.observe import host_at

    for spot in spots:
        host = host_at(model, spot[0], spot[1])
        if host is None:
            found[spot] = Unavailable(spot[2], f"this block has no {spot[1]}")
            continue
        try:
            value = getattr(host, spot[2])
        except Unavailable as error:
            value = error
        found[spot] = value.clone() if isinstance(value, torch.Tensor) else value
