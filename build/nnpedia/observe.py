"""Reading many values in one forward, from code rather than from a `with` block.

Each request gets a worker of its own, so requests need no order, and one that fails (a value this
load does not have) fails alone. This is what probes, laws and shape checks run on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from nnsight.intervention.interleaver import Mediator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

from nnpedia.errors import NnpediaError, PaddingWarning, Unavailable
from nnpedia.holding import host_of, layers_with

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

_TASK = compile("task()", "<nnpedia.observe>", "exec")

#: Where a value is: the layer (`None` for the root), the host's name, the value's name.
Spot = tuple[int | None, str, str]


def observe(model: StandardizedTransformer, tasks: Iterable[Callable[[], None]], *inputs: Any, **kwargs: Any) -> None:
    """Run one forward with every task interleaved, each a worker that sees the whole batch.

    A task is a function of no arguments that reads and assigns values as the body of a trace would.
    """
    interleaver = model.interleaver
    batcher = model._batcher_class(model, {})
    batcher.add(*inputs, **kwargs)
    try:
        for task in tasks:
            interleaver.mediators.append(Mediator(_TASK, {}, {"task": task}))
        model.interleave(model._call, batcher=batcher)
    finally:
        interleaver.cancel()


def host_at(model: StandardizedTransformer, layer: int | None, host: str) -> Any:
    """The host of a spot; `None` where this block has no such host."""
    if layer is None:
        return model
    return host_of(model.layers[layer], host)


def asked_host(model: StandardizedTransformer, spot: Spot) -> Any:
    """The host of a spot; raises `Unavailable`, naming the blocks that have the value, where the block has none."""
    layer, host, name = spot
    found = host_at(model, layer, host)
    if found is None:
        having = layers_with(model, host, name)
        raise Unavailable(name, f"this block has no {host}", layers=having, where=f"model.layers[{layer}]")
    return found


def read(
    model: StandardizedTransformer,
    spots: Iterable[Spot],
    *inputs: Any,
    keep: Callable[[Any], Any] = lambda value: value.clone() if isinstance(value, torch.Tensor) else value,
    edits: Mapping[Spot, Callable[[Any], Any]] | None = None,
    **kwargs: Any,
) -> dict[Spot, Any]:
    """Every spot's value in one forward: a kept copy, or the `NnpediaError` that reading raised.

    `edits` assigns: each maps a spot to a function from the value there to the value to put there
    (`None` leaves what the function did in place). Edits run before the reads of the same place.
    """
    found: dict[Spot, Any] = {}

    def reading(spot: Spot) -> Callable[[], None]:
        def task() -> None:
            try:
                found[spot] = keep(getattr(asked_host(model, spot), spot[2]))
            except NnpediaError as error:
                found[spot] = error

        return task

    def editing(spot: Spot, edit: Callable[[Any], Any]) -> Callable[[], None]:
        def task() -> None:
            host = asked_host(model, spot)
            changed = edit(getattr(host, spot[2]))
            if changed is not None:
                setattr(host, spot[2], changed)

        return task

    tasks = [editing(spot, edit) for spot, edit in (edits or {}).items()]
    tasks += [reading(spot) for spot in spots]
    with torch.no_grad():
        observe(model, tasks, *inputs, **kwargs)
    return found


def scan(model: StandardizedTransformer, spots: Iterable[Spot], *inputs: Any, **kwargs: Any) -> dict[Spot, Any]:
    """Shape and dtype of every spot without weights.

    A model that lies on the meta device runs there as it is, several times as fast as on fake tensors. These are asked
    where that forward fails, or leaves a value unread for another reason than that the load has none: they also know
    operations whose results' sizes depend on data.

    A forward that branches on its data (longrope asks how far the positions reach) takes the false
    side: shapes do not depend on it in any family, and there are no data.
    """
    spots = list(spots)
    if model.dispatched and all(parameter.is_meta for parameter in model._module.parameters()):
        with suppress(Exception), FalseSide(), warnings.catch_warnings():
            warnings.simplefilter("ignore", PaddingWarning)  # the ids are no text
            found = read(model, spots, *inputs, keep=shape_of, **kwargs)
            if all(isinstance(value, Unavailable) for value in found.values() if isinstance(value, NnpediaError)):
                return found
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(assume_static_by_default=True))
    with fake, FalseSide():
        return read(model, spots, *inputs, keep=shape_of, **kwargs)


class FalseSide(TorchFunctionMode):
    """Makes the truth of a tensor without data `False` instead of an error."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__bool__ and (isinstance(args[0], FakeTensor) or args[0].is_meta):
            return False
        return func(*args, **(kwargs or {}))


def shape_of(value: Any) -> Any:
    """`(shape, dtype)` of a tensor; anything else as it is."""
    return (tuple(value.shape), str(value.dtype).removeprefix("torch.")) if isinstance(value, torch.Tensor) else value


def spots_of(model: StandardizedTransformer, layers: Iterable[int] | None = None) -> list[Spot]:
    """Every value the family has, on the root and on the given blocks (all of them by default)."""
    layers = range(model.num_layers) if layers is None else layers
    names = [name.split(".") for name in model.forward_order()]
    root = [(None, host, name) for host, name in names if host == "model"]
    blocks: list[Spot] = [(layer, host, name) for layer in layers for host, name in names if host != "model"]
    return [*root, *blocks]
