"""Sharing: what a mixture gives beside its routed experts, and how the two become its contribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.tree import Block, Sublayer

if TYPE_CHECKING:
    from nnpedia.draft.feeding import Feeding


def see_shared(
    recording: Recording, block: Block, part: Sublayer, routed: Tensor, found: Feeding, scales: Mapping[str, float]
) -> None:
    """The shared expert: what is added to the routed experts, times a number of the config or not; into `found`."""
    made = [e for e in recording.within(part.host) if e.access == "output" and e.tensor.numel() == routed.numel()]
    if part.beside is not None:
        made += [
            e for e in recording.within(part.beside) if e.access == "output" and e.tensor.numel() == routed.numel()
        ]
    whole = next((e for e in made if e.module == part.host and not e.operations), None)
    total = part.contribution if whole is None or part.beside else whole.tensor.reshape(routed.shape)
    if same(routed, total):
        found.absent["shared_expert_output"] = "this mixture has no shared expert"
        return
    fitting = next(
        (those for goal in _sums(recording, block, part, total) if (those := _adding(made, routed, goal, scales))), []
    )
    if not fitting:
        found.why["shared_expert_output"] = "what the mixture returns is not its experts' sum plus another tensor"
        return
    found.targets["shared_expert_output"] = [fitting[0].tensor.reshape(routed.shape)]
    own = [e.module for e in fitting if not e.operations and e.module.startswith(f"{part.host}.")]
    if own:
        found.roles["shared_expert"] = min(own, key=len)


def _sums(recording: Recording, block: Block, part: Sublayer, total: Tensor) -> Iterator[Tensor]:
    """What the sum may be: what the mixture gives, or what it norms or scales at its end."""
    yield total
    inside = recording.within(part.host if part.beside is None else block.path)
    for event in reversed(inside):
        if (
            event.access in ("output", "input")
            and event.tensor.numel() == total.numel()
            and event.tensor.is_floating_point()
        ):
            yield event.tensor.reshape(total.shape)


def _adding(made: list[Event], routed: Tensor, goal: Tensor, scales: Mapping[str, float]) -> list[Event]:
    """The outputs that, added to the routed experts, give the goal."""
    for factor in (1.0, *scales.values()):
        left = routed * factor
        fitting = [e for e in made if bool(e.tensor.any()) and same(left + e.tensor.reshape(routed.shape), goal, 3.0)]
        if fitting:
            return fitting
    return []
