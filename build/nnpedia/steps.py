"""Steps: a value belongs to one forward of a run, and a request waits for that forward only.

nnsight counts how often each place was reached and serves a request at the count it asks for. Places
inside a forward are counted only from when they are first looked for, and a request that comes too
late within a step is served by the step after it: right shape, wrong numbers. So the forwards of
the blocks are opened before a run begins, counts are brought up to date where a place is asked for
first, and what a later forward brings is refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nnsight.intervention.interleaver import Event, Mediator, OutOfOrderError, Pending

from nnpedia.forwards import inside

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting
    from nnpedia.model import StandardizedTransformer


def served(host: Hosting, location: str) -> Any:
    """What the forward of this step has at a location; raises `OutOfOrderError` when it had passed it."""
    return awaited(host.root, Mediator.current(location), location)


def awaited(root: StandardizedTransformer, mediator: Mediator, location: str) -> Any:
    """`served`, asked by the trace code that `mediator` runs."""
    step = mediator.iteration
    if step is None:  # it has been served something: it is in the step of the forward in progress
        step = root.call().index
    wanted = mediator.wanted(location)
    mediator.flush()
    value = mediator.worker.parent.switch(Pending(Event.VALUE, location, wanted))
    call = root.progress.call
    if call is not None and call.index > step:
        raise OutOfOrderError(f"{location} was passed in step {step}")
    return value


def drilled(host: Hosting, node: Any, wanted: frozenset[str] | None) -> Any:
    """The operations inside the function an operation calls, which is known once the forward calls it."""
    catch_up(f"{node.path}.fn", node.path)
    return inside(node, wanted, partial(served, host))


def catch_up(location: str, parent: str) -> None:
    """Count a place inside `parent` as reached in every call of `parent` that has ended in this run."""
    mediator = Mediator.current(location)
    if mediator.interleaver is None:
        return
    counts = mediator.interleaver.counts
    ended = mediator.counts_at_start.get(location, 0) + mediator.occurrence(f"{parent}.output")
    counts[location] = max(counts.get(location, 0), ended)
