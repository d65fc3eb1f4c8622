"""Steps: a value belongs to one forward of a run, and a request waits for that forward only.

nnsight counts how often each place was reached and serves a request at the count it asks for. Places
inside a forward are counted only from when they are first looked for, and a request that comes too
late within a step is served by the step after it: right shape, wrong numbers. So the forwards of
the blocks are opened before a run begins, counts are brought up to date where a place is asked for
first, and what a later forward brings is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nnsight.intervention.interleaver import Mediator, OutOfOrderError
from nnsight.intervention.source import SourceNotAvailable

from nnpedia.errors import NnpediaError

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.model import StandardizedTransformer


def served(host: Hosting, location: str) -> Any:
    """What the forward of this step has at a location; raises `OutOfOrderError` when it had passed it."""
    with of_this_step(host, location):
        return Mediator.value(location)


def drilled(host: Hosting, node: Any) -> Any:
    """The operations inside the function an operation calls, which is known once the forward calls it."""
    catch_up(f"{node.path}.fn", node.path)
    with of_this_step(host, node.path):
        return node.source


@contextmanager
def of_this_step(host: Hosting, location: str) -> Iterator[None]:
    """Around a request: raise `OutOfOrderError` when a later forward than this step's has answered it."""
    root = host.root
    step = Mediator.current(location).iteration
    if step is None:  # this step has been served something: the step is the forward in progress
        step = root.call().index
    yield
    if root.running and root.call().index > step:
        raise OutOfOrderError(f"{location} was passed in step {step}")


def catch_up(location: str, parent: str) -> None:
    """Count a place inside `parent` as reached in every call of `parent` that has ended in this run."""
    mediator = Mediator.current(location)
    if mediator.interleaver is None:
        return
    counts = mediator.interleaver.counts
    ended = mediator.counts_at_start.get(location, 0) + mediator.occurrence(f"{parent}.output")
    counts[location] = max(counts.get(location, 0), ended)


def open_forwards(model: StandardizedTransformer) -> None:
    """Make the operations that values are read at visible, before a forward that has begun hides them."""
    for host in _hosts(model):
        for name, spec in model.family.values[host.host_name].items():
            value: Any = getattr(type(host), name)
            try:
                if spec.reader is not None and host is not model:
                    _ = host.source
                elif value.address is not None and value.address.operations:
                    _ = value.descend(host).source
            except (NnpediaError, SourceNotAvailable, AttributeError):
                continue  # this block has no such place; asking for the value says why


def _hosts(model: StandardizedTransformer) -> Iterator[Any]:
    from nnpedia.hosts import PATHS
    from nnpedia.observe import host_at

    yield model
    for layer in range(model.num_layers):
        for name in PATHS:
            if name in model.family.values and (host := host_at(model, layer, name)) is not None:
                yield host
