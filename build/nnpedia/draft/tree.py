"""The tree: embedding, blocks, norm and head, found by what flows; and what is kept of a block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nnpedia.checkpoints.redraw import blocks
from nnpedia.draft.places import same
from nnpedia.draft.recording import Recording
from nnpedia.errors import CheckpointError


@dataclass(frozen=True)
class Containers:
    """Native paths of what stands around the blocks."""

    embedding: str
    layers: str
    norm: str | None
    head: str
    count: int
    normed_again: bool = False  # the final norm has other calls before its last
    ratio: float = 1.0  # what the head reads over what the final norm gives


@dataclass
class Sublayer:
    """A part of a block whose output reaches the stream.

    Attributes:
        role: `attention`, `recurrent` or `mlp`.
        host: The module, by native path; the block itself where it has none of its own.
        contribution: What is added to the stream, `[batch seq hidden_size]`.
        reads: The tensor the module is called with.
        norm: The module that norms the stream before it, if any.
        after: The module that norms what it returns, if any.
        virtual: Whether the host is the block, whose own projections make the sublayer.
        beside: A module of the block whose output is a part of the contribution too: a mixture's shared expert.
    """

    role: str
    host: str
    contribution: Tensor
    reads: Tensor
    norm: str | None = None
    after: str | None = None
    virtual: bool = False
    beside: str | None = None


@dataclass
class Block:
    """One block as it was seen: how it adds to the stream."""

    layer: int
    path: str
    entering: Tensor
    leaving: Tensor
    mid: Tensor | None = None
    sublayers: list[Sublayer] = field(default_factory=list)
    shape: str = "unknown"  # sequential, parallel, single
    sums: tuple[str, ...] = ()  # the norms that the stream passes after each sum
    scale: str = ""  # the number of the block's own that the whole sum is multiplied by
    why: str = ""
    left_out: dict[str, str] = field(default_factory=dict)  # a part of the vocabulary, and why none is named

    def of(self, role: str) -> Sublayer | None:
        return next((one for one in self.sublayers if one.role == role), None)


def containers(model: Any, recording: Recording) -> Containers:
    """Where the embedding, the blocks, the final norm and the head are; raises `CheckpointError` for a tree without."""
    paths = {id(module): path for path, module in model.named_modules()}
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if embedding is None or head is None:
        raise CheckpointError("the model has no token embedding or no head of its own")
    if not any(isinstance(module, nn.ModuleList) for module in model.modules()):
        raise CheckpointError("the model has no list of blocks")
    stack = blocks(model)
    head_path = paths[id(head)]
    entered = recording.at(head_path, (), "input", ())
    norm, ratio = None, 1.0
    for path, module in model.named_modules():
        made = recording.at(path, (), "output", ())
        if path.startswith(f"{paths[id(stack)]}.") or not is_norm(module) or made is None or entered is None:
            continue
        if made.tensor.numel() != entered.tensor.numel():
            continue
        if same(made.tensor.view_as(entered.tensor), entered.tensor):
            norm, ratio = path, 1.0
        elif norm is None and (times := _ratio(made.tensor.view_as(entered.tensor), entered.tensor)) is not None:
            norm, ratio = path, times
    again = None if norm or entered is None else _called_again(model, recording, paths[id(stack)], entered.tensor)
    stacked = paths[id(stack)]
    return Containers(paths[id(embedding)], stacked, norm or again, head_path, len(stack), again is not None, ratio)


def _ratio(before: Tensor, after: Tensor) -> float | None:
    """The one positive number that gives `after` from `before`; `None` where there is none."""
    square = float(before.double().square().sum())
    times = float((before.double() * after.double()).sum()) / square if square else 0.0
    return times if times > 0 and same(before * times, after, 8.0) else None


def _called_again(model: Any, recording: Recording, stack: str, entered: Tensor) -> str | None:
    """The norm that gives what the head reads from what the last block returns, where its first call is another."""
    last = f"{stack}.{len(model.get_submodule(stack)) - 1}"
    left = next((e for i in ((), (0,)) if (e := recording.at(last, (), "output", i)) is not None), None)
    for path, module in model.named_modules():
        if left is None or path.startswith(f"{stack}.") or not is_norm(module):
            continue
        with torch.no_grad():
            if left.tensor.shape == entered.shape and same(module(left.tensor), entered):
                return str(path)
    return None


def is_norm(module: nn.Module) -> bool:
    """A module that scales each position by itself: at most a gain and a bias, or a norm without weights."""
    own = list(module.parameters())
    if any(parameter.dim() != 1 for parameter in own) or len(own) > 2 or list(module.children()):
        return False
    return bool(own) or "norm" in type(module).__name__.lower()


def is_linear(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding)
