"""Attention and experts written out once more, registered with transformers, keeping what they compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

ATTENTION = "nnpedia_oracle_attention"
EXPERTS = "nnpedia_oracle_experts"

Inner = dict[nn.Module, dict[str, Tensor]]
_watched: Inner | None = None


@contextmanager
def watching() -> Iterator[Inner]:
    """Keep what the two functions compute, by the module they compute it for."""
    global _watched
    _watched = {}
    try:
        yield _watched
    finally:
        _watched = None


def _keep(module: nn.Module, **quantities: Tensor) -> None:
    if _watched is not None:
        assert module not in _watched, f"{type(module).__name__} runs twice in one forward"
        _watched[module] = {name: tensor.detach().clone() for name, tensor in quantities.items()}


def attention(
    module: nn.Module,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Softmax attention over `[batch heads seq dim]`, each key and value head serving a run of query heads."""
    assert dropout == 0.0
    width = queries.shape[-1]
    times = queries.shape[1] // keys.shape[1]
    every_key = torch.repeat_interleave(keys, times, dim=1)
    every_value = torch.repeat_interleave(values, times, dim=1)
    scores = torch.matmul(queries, every_key.mT) * (width**-0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores = scores + mask
    if s_aux is None:
        pattern = torch.softmax(scores, dim=-1, dtype=torch.float32).to(queries.dtype)
    else:  # a sink per head stands beside the keys and has no value
        sinks = s_aux[None, :, None, None] + torch.zeros_like(scores[..., :1])
        beside = torch.cat([scores, sinks], dim=-1)
        pattern = torch.softmax(beside - beside.max(dim=-1, keepdim=True).values, dim=-1)[..., :-1]
    heads = torch.matmul(pattern, every_value).permute(0, 2, 1, 3).contiguous()
    _keep(module, queries=queries, keys=keys, values=values, scores=scores, pattern=pattern, heads=heads)
    return heads, pattern


def experts(module: Any, tokens: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """Each token's experts as one batch of matrix products; `tokens` is `[tokens hidden]`."""
    slots = indices.shape[-1]
    flat = indices.reshape(-1)
    each = tokens.repeat_interleave(slots, dim=0)
    hidden = _project(module, "gate_up_proj" if module.has_gate else "up_proj", each, flat)
    if module.has_gate and module.is_concatenated:
        gate, up = hidden.chunk(2, dim=-1)
        hidden = module.act_fn(gate) * up
    elif module.has_gate:  # gate and up alternate, and are clamped
        gate, up = hidden.unflatten(-1, (-1, 2)).unbind(-1)
        gate, up = gate.clamp(max=module.limit), up.clamp(-module.limit, module.limit)
        hidden = (up + 1) * (gate * torch.sigmoid(gate * module.alpha))
    else:
        hidden = module.act_fn(hidden)
    outputs = _project(module, "down_proj", hidden, flat) * weights.reshape(-1).unsqueeze(-1)
    per_slot = outputs.view(tokens.shape[0], slots, -1)
    _keep(module, indices=indices, weights=weights, per_slot=per_slot)
    return per_slot.sum(1)


def _project(module: Any, name: str, x: Tensor, expert: Tensor) -> Tensor:
    weight, bias = getattr(module, name)[expert], getattr(module, f"{name}_bias", None)
    # A weight is [out in] unless the module keeps it transposed; the order of the factors decides the rounding.
    if module.is_transposed:
        product = torch.bmm(x.unsqueeze(1), weight).squeeze(1)
    else:
        product = torch.bmm(weight, x.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias[expert]


def register() -> None:
    """Make both known to transformers; the mask handed to the attention is the additive one."""
    from transformers import AttentionInterface
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, eager_mask)
    ALL_EXPERTS_FUNCTIONS.register(EXPERTS, experts)


register()
