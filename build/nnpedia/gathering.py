"""Gathering: one value of many blocks, for which the trace code waits at the first of them and the last only.

Reading block by block gives the run over to the trace code and back at each of them. Between the first and the
last one, what the calls give is put aside where they are made, and laid out when the trace code goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from nnsight.intervention.interleaver import Mediator
from nnsight.intervention.source import STATE, SourceNotAvailable
from torch import Tensor

from nnpedia.errors import AddressError, ModelError, OutsideTrace, ReadOnly, nearest
from nnpedia.forwards import inside_again, runs_as_opened
from nnpedia.handoffs import Handoff, Site
from nnpedia.holding import PATHS, has, host_of
from nnpedia.late import raise_late
from nnpedia.spots import Spot
from nnpedia.watched import watch

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.model import StandardizedTransformer
    from nnpedia.values import Value


def every(model: StandardizedTransformer, name: str, layers: Iterable[int] | None = None) -> dict[int, Tensor]:
    """`StandardizedTransformer.every`, which says what it gives and raises."""
    host_name, value_name = _named(model, name)
    if not model.interleaver.interleaving:
        raise OutsideTrace(f"{name} exists only while the model runs: ask for it inside `with model.trace(prompt):`")
    hosts = _hosts(model, host_name, value_name, layers)
    if not hosts:
        return {}
    first = min(hosts)
    found = {first: getattr(hosts.pop(first), value_name)}
    found |= _gathered(model, value_name, hosts) or {layer: getattr(host, value_name) for layer, host in hosts.items()}
    last = max(found)
    if found[last].is_inference():  # of which torch counts no edits: one is lost here as it is of the others
        found[last] = found[last].clone()
    watch(Mediator.current(name), tuple(found.values()), partial(_refuse, name))
    return found


def _named(model: StandardizedTransformer, name: str) -> tuple[str, str]:
    """The host and the value of a name such as `layers.layer_output`; raises `ModelError` with the nearest one."""
    host, _, value = str(name).partition(".")
    if host in PATHS and value in model.family.values.get(host, {}):
        return host, value
    there = [each for each in model.values() if each.split(".")[0] in PATHS]
    told = "is a value of the model" if name in model.values() else "is no value of a block"
    near = nearest(str(name), there)
    raise ModelError(f"{name!r} {told}{near}; model.values() lists those of blocks with their host")


def _hosts(model: StandardizedTransformer, host: str, value: str, layers: Iterable[int] | None) -> dict[int, Hosting]:
    """The hosts to ask by block, in the order of the forward; without `layers` those that hold the value."""
    blocks: Sequence[Any] = list(model.layers)
    if layers is None:  # where there is none, the first block says why
        numbers = [layer for layer, block in enumerate(blocks) if _holds(block, host, value)] or [0]
    else:
        numbers = _numbers(model, layers)
    return {layer: blocks[layer] if host == "layers" else getattr(blocks[layer], host) for layer in numbers}


def _numbers(model: StandardizedTransformer, layers: Any) -> list[int]:
    """The blocks that these are the numbers of, in the order of the forward; raises `ModelError` for none."""
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise ModelError(f"layers are numbers of blocks, such as range(4) or [0, -1], and this is {layers!r}")
    asked = list(layers)
    if any(isinstance(each, slice) for each in asked):
        raise ModelError(f"layers are numbers of blocks, such as range(4) or [0, -1], and there is a slice: {asked!r}")
    return sorted({int(model.layers[each].path.rsplit(".", 1)[-1]) for each in asked})


def _holds(block: Any, host: str, name: str) -> bool:
    """`has`, which a place that was found before need not ask."""
    found = host_of(block, host)
    value = None if found is None else getattr(type(found), name)
    return value is not None and (value in found.places or value in found.inner or has(block, host, name))


def _refuse(name: str) -> NoReturn:
    raise ReadOnly(f"{name} of many blocks was read, and an edit in place changes nothing: assign it block by block")


# -- what the calls give, put aside -------------------------------------------------------------


def _gathered(model: StandardizedTransformer, name: str, hosts: Mapping[int, Hosting]) -> dict[int, Tensor] | None:
    """The value of these hosts, in a forward that is before the first of them; none where each has to be asked.

    So they have to be where a run has several traces, edits or caches to serve, or gradients flow; and for a value
    that the model writes over later, that is worked out of several places, or that no run has found here before.
    """
    interleaver, mediator = model.interleaver, Mediator.current(name)
    shared = len(interleaver.mediators) > 1 or mediator.caches or interleaver.defer_exceptions
    if len(hosts) < 2 or shared or interleaver.fragments.enabled or torch.is_grad_enabled():
        return None
    values: dict[int, Value] = {layer: getattr(type(host), name).here(host) for layer, host in hosts.items()}
    *early, last = hosts
    calls = [_call(model, hosts[layer], values[layer]) for layer in early]
    found: dict[int, Tensor] = {}
    with _kept(model, calls) as spots:
        if spots is None:
            return None
        end = getattr(hosts[last], name)
        for layer, spot in zip(early, spots, strict=True):
            if not spot.gathers:
                raise_late(hosts[layer], name)
            found[layer] = values[layer].handed(hosts[layer], model, spot.gathers[0])[0]
    return found | {last: end}


def _call(model: StandardizedTransformer, host: Hosting, value: Value) -> tuple[Spot, Any] | None:
    """The call that gives the value, and the operation in whose function it is made, if it is."""
    if host.derives or value.address is None or value.address.access != "output" or value.spec.copies:
        return None
    if value.conditional:
        value.check_declared(host)
    try:
        foreseen, envoy = value.foreseen(host), value.descend(host)
        state = envoy._module.__dict__[STATE]
    except (AddressError, KeyError):
        return None
    if foreseen is None or len(state.routes) != 1:
        return None
    location, outer = foreseen
    spot = model.interleaver.spots.get(location)
    if spot is None or location != spot.places[2]:
        return None
    told = spot.routes is state.routes if isinstance(spot, Handoff) else runs_as_opened(envoy)
    return (spot, outer) if told else None


@contextmanager
def _kept(model: StandardizedTransformer, calls: Sequence[tuple[Spot, Any] | None]) -> Iterator[list[Spot] | None]:
    """The calls that put aside what they give for as long as this lasts; none if one of them cannot be told to."""
    spots: list[Spot] = []
    sites: list[Site] = []
    try:
        for call in calls:
            if call is None:
                break
            spot, outer = call
            if outer is not None:
                site = model.interleaver.spots.get(f"{outer.path}.output")
                if not isinstance(site, Site):
                    break
                wanted = model.forwards.wanted(outer.envoy.path, (outer.name,))
                site.inside, site.drilled = partial(_opened, outer, wanted), True
                sites.append(site)
            spot.gathers, spot.after = [], True
            spots.append(spot)
        yield spots if len(spots) == len(calls) else None
    finally:
        for spot in spots:
            spot.gathers, spot.after = None, False
        for site in sites:
            site.inside = None


def _opened(node: Any, wanted: frozenset[str] | None, function: Any) -> Any:
    """What runs in the place of a function to show what is inside; none for one that has no source."""
    try:
        return inside_again(node, function, wanted)
    except SourceNotAvailable:
        return None
