"""Calls: which forward call of a run is in progress, and what there is to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

#: What transformers calls a cache, as an argument and in what a model returns.
CACHES = ("cache", "past_key_values", "cache_params")


@dataclass(frozen=True)
class Call:
    """The forward call in progress: its count in this run, its rows, its length, and where its tokens are.

    `mask` is `[batch positions]`, when it was given one: it may cover cached tokens too. `cache` is the one it
    continues, when it was given one that holds something. `kept` are the positions that `logits_to_keep` picks one by
    one, when it does. `buffers` is a cache that later calls write over in place.
    `options` are what the load runs, as far as they were asked for in this call, which does not change them.
    """

    index: int
    batch: int
    seq: int
    device: torch.device
    mask: torch.Tensor | None = None
    cache: Any = None
    kept: torch.Tensor | None = None
    buffers: Any = None
    options: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def last(self) -> torch.Tensor:
        """Each row's last real position `[batch]`, among the call's own."""
        if self.mask is None:
            return torch.full((self.batch,), self.seq - 1, device=self.device)
        return torch.where(self.mask[:, -self.seq :] != 0, torch.arange(self.seq, device=self.device), 0).amax(-1)

    @property
    def decodes(self) -> bool:
        """Whether it is one token more of a text whose past is in the cache."""
        return self.seq == 1 and self.cache is not None


@dataclass
class Progress:
    """How far a run is: the forward call in progress, seen alike by a model and by the edited copies of it."""

    call: Call | None = None


def next_call(before: Call | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """The call that begins with these arguments, after the one before it in this run."""
    tokens = kwargs.get("input_ids", args[0] if args else None)
    if tokens is None:
        tokens = kwargs["inputs_embeds"]
    batch, seq = tokens.shape[:2]
    mask = kwargs.get("attention_mask")
    keep = kwargs.get("logits_to_keep")
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        mask = None
    index = 0 if before is None else before.index + 1
    cache = next((kwargs[name] for name in CACHES if kwargs.get(name) is not None), None)
    kept = None
    if isinstance(keep, torch.Tensor):
        kept = torch.arange(seq, device=tokens.device)[keep.to(tokens.device)]
    buffers = cache if getattr(cache, "is_compileable", False) else None  # of one length, so that it compiles
    past = cache if holds_a_past(cache) else None
    return Call(index, batch, seq, tokens.device, mask, past, kept, buffers)


def holds_a_past(cache: Any) -> bool:
    """Whether a cache, of keys and values or of recurrent states, has seen tokens."""
    if cache is None:
        return False
    try:
        return bool(cache.has_previous_state())
    except (AttributeError, ValueError):  # a cache of keys and values alone
        return bool(cache.get_seq_length())
