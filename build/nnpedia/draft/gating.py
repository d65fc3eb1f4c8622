"""Gates: a product of two projections is told from a function of one by moving one of them.

On a single forward `relu(up) * up` and `gate * up` are both a tensor times the up projection. Only in the second does
the tensor stay as it is when the up projection gives something else.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from nnpedia.draft.places import ACROSS, same
from nnpedia.draft.recording import Event, record


def stays(model: nn.Module, ids: Tensor, gate: Event, projection: str, part: slice) -> bool:
    """Whether a tensor is the same when a `part` of the last axis of a projection's output is another one.

    Args:
        ids: The `[batch seq]` token ids that `gate` was recorded on.
        projection: The native path of the module whose output is moved.
    """
    moved = copy.deepcopy(model)

    def move(module: nn.Module, given: object, made: Tensor) -> Tensor:
        other = made.clone()
        noise = torch.randn(other[..., part].shape, generator=torch.Generator().manual_seed(11))
        other[..., part] += noise * made.std()
        return other

    hook = moved.get_submodule(projection).register_forward_hook(move)
    try:
        after = record(moved, ids).at(gate.module, gate.operations, gate.access, gate.index)
    finally:
        hook.remove()
    return after is not None and same(after.tensor, gate.tensor, ACROSS)
