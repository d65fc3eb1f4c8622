"""Watched: what a read handed out, looked at once more when the trace moves on.

An edit in place says nothing: all it leaves is another version of the tensor. One that would change
nothing, or put a number where the model has no meaning for it, is refused here, at the line after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from nnsight.intervention.interleaver import Mediator
from torch import Tensor


class Watch:
    """Stands before a mediator's `flush`, which nnsight calls when its trace code moves on; for one time only."""

    def __init__(self, mediator: Mediator) -> None:
        self.mediator, self.worker = ref(mediator), ref(mediator.worker)
        self.held: list[tuple[Any, Any, Callable[[], None]]] = []

    def __call__(self) -> None:
        mediator: Any = self.mediator()
        del mediator.flush
        if self.worker() is mediator.worker:  # an edit's mediator runs again: what a run that failed held is gone
            for value, before, edited in self.held:
                if _state(value) != before:
                    edited()
        mediator.flush()


def watch(mediator: Any, value: Any, edited: Callable[[], None]) -> None:
    """Call `edited`, which may raise, if `value` is edited in place before the trace code of `mediator` moves on."""
    kept = mediator.__dict__.get("flush")
    if kept is None or kept.worker() is not mediator.worker:
        kept = mediator.flush = Watch(mediator)
    kept.held.append((value, _state(value), edited))


def _state(value: Any) -> Any:
    """What is another after an edit in place; a tensor of inference mode keeps no count of them."""
    if isinstance(value, Tensor):
        return None if value.is_inference() else value._version
    return [_state(each) for each in value] if isinstance(value, tuple) else list(value)
