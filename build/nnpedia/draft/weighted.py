"""Weighted inputs: a mixture whose experts all run on every token, each on the token times its weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.tree import Sublayer

if TYPE_CHECKING:
    from nnpedia.draft.feeding import Feeding

LAYOUTS = {"expert_weights": "EveryExpertWeight", "expert_outputs": "EveryExpertOutput"}


def see_weighted_inputs(recording: Recording, part: Sublayer, experts: str, found: Feeding) -> bool:
    """Whether the experts are called with every token once for each of them, times a weight; into `found`.

    Weights are those that give what the experts read, outputs what they return, the routed output its sum, and
    indices the experts whose weight is not zero.
    """
    batch, seq, hidden = part.contribution.shape
    tokens = batch * seq
    entered, made = recording.at(experts, (), "input", ()), recording.at(experts, (), "output", ())
    whole = recording.at(part.host, (), "input", ())
    if entered is None or made is None or whole is None or entered.tensor.numel() != made.tensor.numel():
        return False
    count, rest = divmod(entered.tensor.numel(), tokens * hidden)
    if rest or count < 2 or whole.tensor.numel() != tokens * hidden:
        return False
    reads = whole.tensor.reshape(1, tokens, hidden)
    given = entered.tensor.reshape(count, tokens, hidden)
    inside = [event for event in recording.within(part.host) if event.access == "output"]
    weights = next(
        (
            one
            for event in inside
            if event.tensor.numel() == count * tokens and event.tensor.is_floating_point()
            for one in (event.tensor.reshape(tokens, count),)
            if same(reads * one.t().unsqueeze(-1), given, 8.0)
        ),
        None,
    )
    if weights is None:
        return False
    outputs = made.tensor.reshape(count, batch, seq, hidden).permute(1, 2, 0, 3)
    routed = outputs.sum(2)
    if not any(event.tensor.numel() == routed.numel() and _is(event.tensor, routed) for event in inside):
        return False
    found.layouts |= LAYOUTS
    found.targets["expert_weights"] = [weights.reshape(batch, seq, count)]
    found.targets["expert_outputs"] = [outputs]
    found.targets["routed_output"] = [routed]
    for name in ("expert_weights", "expert_outputs", "routed_output", "expert_indices"):
        found.why.pop(name, None)
    indices = next((event for event in inside if _chooses(event, weights)), None)
    if indices is None:
        found.why["expert_indices"] = "no whole numbers of the forward are the experts whose weight is not zero"
    else:
        slots = indices.tensor.numel() // tokens
        found.sizes["top_k"] = slots
        found.targets["expert_indices"] = [indices.tensor.reshape(batch, seq, slots)]
    return True


def _is(tensor: Tensor, target: Tensor) -> bool:
    return tensor.is_floating_point() and same(tensor.reshape(target.shape), target, 16.0)


def _chooses(event: Event, weights: Tensor) -> bool:
    """Whether whole numbers are, for each token, the experts whose weight is not zero."""
    tokens, count = weights.shape
    slots, rest = divmod(event.tensor.numel(), tokens)
    if event.tensor.is_floating_point() or event.tensor.dtype == torch.bool or rest or not 0 < slots < count:
        return False
    chosen = event.tensor.reshape(tokens, slots).long()
    if int(chosen.min()) < 0 or int(chosen.max()) >= count:
        return False
    there = torch.zeros(tokens, count, dtype=torch.bool).scatter_(1, chosen, True)
    return torch.equal(there, weights != 0)
