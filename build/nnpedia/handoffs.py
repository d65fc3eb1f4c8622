"""Handoffs: what every module of a model does in each call besides its own forward.

nnsight puts a controller on each module, which shows the interleaver the call's inputs, a gate to
skip it and its output, each through a function of its own. Few modules of a run have anybody waiting,
so the controller here asks that question first and leaves the rest of the work undone.
"""

from __future__ import annotations

from typing import Any

import torch
from nnsight.intervention.source import STATE, Controller


class Handoff(Controller):
    """nnsight's controller, with a short way through a call that nobody looks at; what is served is the same."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.state
        module = self.module_ref()
        if len(state.routes) != 1 or module is None or "_hf_hook" in module.__dict__:
            return super().__call__(*args, **kwargs)
        reference, _, places = state.routes[0]
        interleaver = reference()
        if interleaver is None or not interleaver.interleaving or not interleaver.busy:
            return state.body(module, *args, **kwargs)
        entering, gate, leaving = places
        parked, observers, counts = interleaver.parked, interleaver.observers, interleaver.counts
        if entering in parked or gate in parked or entering in observers or gate in observers:
            return super().__call__(*args, **kwargs)
        counts[entering] = counts.get(entering, 0) + 1
        counts[gate] = counts.get(gate, 0) + 1
        output = state.body(module, *args, **kwargs)
        if leaving in interleaver.parked or leaving in interleaver.observers:  # workers may have moved on meanwhile
            return interleaver.handle(leaving, output)
        counts[leaving] = counts.get(leaving, 0) + 1
        return output


def shorten(root: torch.nn.Module) -> None:
    """Put a `Handoff` where nnsight has its own controller, on every module of a tree."""
    for module in root.modules():
        here = module.__dict__
        if type(here.get("forward")) is Controller:
            here["forward"] = Handoff(module, here[STATE])
