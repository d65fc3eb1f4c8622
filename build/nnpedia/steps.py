"""Steps: a value belongs to one forward of a run, and a request waits for that forward only.

nnsight counts how often each place was reached and serves a request at the count it asks for. Places
inside a forward are counted only from when they are first looked for, and a request that comes too
late within a step is served by the step after it: right shape, wrong numbers. So the forwards of
the blocks are opened before a run begins, counts are brought up to date where a place is asked for
first, and what a later forward brings is refused.
"""

from __future__ import annotations

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
    step = _step(root, mediator)
    wanted = mediator.wanted(location)
    mediator.flush()
    value = mediator.worker.parent.switch(Pending(Event.VALUE, location, wanted))
    _refuse_later(root, step, location)
    return value


def drilled(host: Hosting, node: Any, wanted: frozenset[str] | None) -> Any:
    """The operations inside the function an operation calls, which is known once the forward calls it."""
    root = host.root
    catch_up(f"{node.path}.fn", node.path)
    step = _step(root, Mediator.current(node.path))
    operations = inside(node, wanted)
    _refuse_later(root, step, node.path)
    return operations


def _step(root: StandardizedTransformer, mediator: Mediator) -> int:
    """The step that the running trace code is in."""
    step = mediator.iteration
    return root.call().index if step is None else step  # once it has been served something: the forward in progress


def _refuse_later(root: StandardizedTransformer, step: int, location: str) -> None:
    """Raise `OutOfOrderError` when a later forward than this step's has answered a request."""
    call = root.progress.call
    if call is not None and call.index > step:
        raise OutOfOrderError(f"{location} was passed in step {step}")


def catch_up(location: str, parent: str) -> None:
    """Count a place inside `parent` as reached in every call of `parent` that has ended in this run."""
    mediator = Mediator.current(location)
    if mediator.interleaver is None:
        return
    counts = mediator.interleaver.counts
    ended = mediator.counts_at_start.get(location, 0) + mediator.occurrence(f"{parent}.output")
    counts[location] = max(counts.get(location, 0), ended)
