"""`support`: which values a load gives, found by asking a forward for each of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nnpedia.errors import NnpediaError, Unavailable
from nnpedia.observe import Spot, read, scan, shape_of, spots_of

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer


log = logging.getLogger("nnpedia")


@dataclass(frozen=True)
class Support:
    """One value under one load.

    Attributes:
        layers: The blocks that were asked and have it; empty for a root value.
        reason: Why it is not available; `None` when it is.
        load: The load that would give it, when one would.
    """

    host: str
    name: str
    layout: str
    available: bool
    layers: tuple[int, ...] = ()
    reason: str | None = None
    load: tuple[tuple[str, str], ...] = ()


def support(model: StandardizedTransformer, layer: int | None = None) -> list[Support]:
    """Every value of the vocabulary on this load, on one block or on all of them.

    A forward over two tokens is asked for each value. It runs without weights while the model has
    none, and with them once it does, or where an operation has no weightless form. Raises
    `NoSuchBlock` for a block that is not there.
    """
    layers = list(range(model.num_layers))
    if layer is not None:
        _ = model.layers[layer]
        layers = [layers[layer]]
    found = probe(model, spots_of(model, layers))
    rows: list[Support] = []
    for host, table in model.family.values.items():
        for name, spec in table.items():
            asked = {spot: found[spot] for spot in found if spot[1:] == (host, name)}
            rows.append(_row(model, host, name, spec.layout, spec.absent, asked))
    return rows


def probe(model: StandardizedTransformer, spots: list[Spot]) -> dict[Spot, Any]:
    """Shape and dtype at each spot, or the error that reading it raised."""
    tokens = torch.zeros(1, 2, dtype=torch.long)
    with probing(model):
        if not model.dispatched:
            dtype = model._module.dtype
            # Without weights a dtype costs nothing, and some kernels have a weightless form in one only.
            model._module.to(torch.bfloat16)
            try:
                return scan(model, spots, tokens)
            except NnpediaError:
                raise
            except Exception:
                log.info("no weightless forward of %s; loading the weights", model.repo_id, exc_info=True)
            finally:
                model._module.to(dtype)
        return read(model, spots, tokens, keep=shape_of)


@contextmanager
def probing(model: StandardizedTransformer) -> Iterator[None]:
    """While probing, what a spec declares of loads is not believed: the forward is asked."""
    before, model.probing = model.probing, True
    try:
        yield
    finally:
        model.probing = before


def _row(
    model: StandardizedTransformer, host: str, name: str, layout: str, absent: str | None, asked: dict[Spot, Any]
) -> Support:
    if absent is not None:
        return Support(host, name, layout, False, reason=absent)
    have = tuple(spot[0] for spot, value in asked.items() if not isinstance(value, Exception) and spot[0] is not None)
    errors = [value for value in asked.values() if isinstance(value, Exception)]
    if len(errors) < len(asked):
        return Support(host, name, layout, True, have)
    # A block without the place says nothing of loads: one that is built to have the value does.
    built = [error for error in errors if not getattr(error, "layers", ())]
    error = (built or errors)[0]
    reason = error.reason if isinstance(error, Unavailable) else str(error)
    spec = model.family.values[host][name]
    options = model.load_options()
    needs = spec.needs if built else {}
    load = {option: choices[0] for option, choices in needs.items() if options.get(option) not in choices}
    if load:
        reason = " and ".join(f"{option} {options.get(option)!r} does not compute it" for option in load)
    return Support(host, name, layout, False, reason=reason, load=tuple(load.items()))
