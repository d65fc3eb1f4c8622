"""The functions formulas may call: the arithmetic of attention, mixtures and readouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nnpedia.errors import SpecError


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis, in float32 as the models do, back in the scores' dtype."""
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)


def softmax_beside(scores: Tensor, sinks: Tensor) -> Tensor:
    """Softmax over the last axis and one more entry per head, a sink that takes its share and is left out.

    `[batch num_heads query key]` of as many scores and `[num_heads]` sinks, in the scores' dtype.
    """
    sinks = sinks.view(1, -1, 1, 1).expand(scores.shape[0], -1, scores.shape[2], 1)
    beside = torch.cat([scores, sinks.to(scores.dtype)], dim=-1)
    return torch.softmax(beside - beside.amax(dim=-1, keepdim=True), dim=-1)[..., :-1]


def softcap(x: Tensor, cap: float | None) -> Tensor:
    """`cap · tanh(x / cap)`; `x` itself when there is no cap."""
    return x if cap is None else torch.tanh(x / cap) * cap


def shared_out(per_group: Tensor, heads: int) -> Tensor:
    """Key or value heads `[batch num_kv_heads seq dim]`, each repeated for its query heads."""
    return per_group.repeat_interleave(heads // per_group.shape[1], dim=1)


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """`[batch num_heads query key]` dot products, key heads shared out among query heads."""
    return torch.matmul(queries, shared_out(keys, queries.shape[1]).transpose(2, 3))


def mix(pattern: Tensor, values: Tensor) -> Tensor:
    """`[batch seq num_heads head_dim]`: each head's values weighted by its pattern."""
    return torch.matmul(pattern, shared_out(values, pattern.shape[1])).transpose(1, 2)


def unmasked(x: Tensor, scores: Tensor) -> Tensor:
    """`x` where the scores are not masked, zero elsewhere."""
    return x.masked_fill(scores <= torch.finfo(scores.dtype).min / 2, 0)


def side_by_side(heads: Tensor) -> Tensor:
    """`[batch seq num_heads head_dim]` as `[batch seq num_heads·head_dim]`."""
    return heads.flatten(-2)


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """`x` times the transpose of a `[out in]` weight."""
    return torch.nn.functional.linear(x, weight)


def first_half(fused: Tensor) -> Tensor:
    """The first half of the last axis: the gate of a projection that gives gate and up side by side."""
    return fused.chunk(2, dim=-1)[0]


def second_half(fused: Tensor) -> Tensor:
    """The second half of the last axis."""
    return fused.chunk(2, dim=-1)[1]


def alibi_slopes(scores: Tensor) -> Tensor:
    """`[num_heads 1 1]`: how fast each head of `[batch num_heads query key]` scores favours nearer keys.

    A geometric series from 2^(-8/n) to 2^-8 over n heads, n a power of two; further heads take every other term of
    the series over 2n (Press et al., Train Short, Test Long, 2022).
    """
    heads = scores.shape[1]
    whole = 2 ** (heads.bit_length() - 1)
    steps = torch.cat([torch.arange(1, whole + 1) * 2.0, torch.arange(1, 2 * (heads - whole), 2)])
    return (2.0 ** (steps * (-4 / whole))).view(-1, 1, 1).to(scores)


def positions_from_start(scores: Tensor) -> Tensor:
    """`[key]` positions of the keys of `[batch num_heads query key]` scores: 0, 1, 2, …"""
    return torch.arange(scores.shape[-1]).to(scores)


def positions_from_end(scores: Tensor) -> Tensor:
    """`[key]` positions of the keys of `[batch num_heads query key]` scores: …, -2, -1, 0."""
    return torch.arange(1 - scores.shape[-1], 1).to(scores)


def sigmoid(x: Tensor) -> Tensor:
    """The logistic function; of a contiguous tensor, as rounding depends on strides."""
    return torch.sigmoid(x.contiguous())


def by_heads(x: Tensor, heads: Tensor) -> Tensor:
    """The last axis of `x` cut into as many runs as `[batch seq num_heads …]` has heads."""
    return x.unflatten(-1, (heads.shape[2], -1))


def in_bfloat16(x: Tensor) -> Tensor:
    """`x` rounded to bfloat16, in its own dtype."""
    return x.to(torch.bfloat16).to(x.dtype)


def counted(like: Tensor) -> Tensor:
    """Positions `[1 seq]` of a `[batch seq …]` tensor, counted from 0."""
    return torch.arange(like.shape[1], device=like.device).unsqueeze(0)


def at_last_token(per_position: Tensor) -> Tensor:
    """`[batch …]` of a `[batch seq …]` tensor of unpadded prompts: its last position."""
    return per_position[:, -1]


def per_head(weight: Tensor, values: Tensor) -> Tensor:
    """`[batch seq heads dim]` times one weight per head."""
    return values * weight.view(1, 1, -1, 1)


def read_states(states: Tensor, queries: Tensor) -> Tensor:
    """`[batch seq heads key_dim value_dim]` states read with `[batch seq groups key_dim]` queries."""
    queries = queries.repeat_interleave(states.shape[2] // queries.shape[2], dim=2).to(states.dtype)
    return (states * queries.unsqueeze(-1)).sum(-2)


def read_channels(states: Tensor, queries: Tensor) -> Tensor:
    """`[batch seq channels state_dim]` states read with `[batch seq state_dim]` queries."""
    return torch.matmul(states, queries.to(states.dtype).unsqueeze(-1)).squeeze(-1)


def sum_slots(per_slot: Tensor) -> Tensor:
    """`[batch seq top_k hidden_size]` summed over its slots."""
    return per_slot.sum(-2)


def each_expert(experts: Any, x: Tensor, indices: Tensor) -> Slots:
    """Every slot's expert run alone on its token: `[batch seq top_k hidden_size]`, unweighted."""
    flat, slots = x.flatten(0, 1), indices.flatten(0, 1)
    out = torch.zeros(*slots.shape, x.shape[-1], dtype=x.dtype, device=x.device)
    for expert in slots.unique().tolist():
        token, slot = torch.where(slots == expert)
        out[token, slot] = _one_expert(experts, flat[token], expert)
    return Slots(out.unflatten(0, x.shape[:2]))


def every_expert(experts: Any, x: Tensor, weights: Tensor) -> Tensor:
    """Every expert run alone on the token times its weight: `[batch seq num_experts hidden_size]`.

    For gated experts without biases, their weights stacked as `[expert in out]`, and `[batch seq num_experts]` weights.
    """
    outputs = []
    for expert in range(weights.shape[-1]):
        read = x * weights[..., expert : expert + 1]
        gate, up = (read @ experts.gate_up_proj[expert]).chunk(2, dim=-1)
        outputs.append((up * experts.act_fn(gate)) @ experts.down_proj[expert])
    return torch.stack(outputs, dim=-2)


#: Functions whose outcome has to be multiplied by weights, and what is said where it is not.
WEIGHTED = {
    "each_expert": "each_expert gives every slot's expert unweighted: multiply it by the weights of the slots, as in "
    "each_expert(experts, x, indices) * expert_weights"
}


class Slots:
    """Per-slot outputs that a `[batch seq top_k]` weight multiplies slot by slot; anything else is a `SpecError`."""

    def __init__(self, outputs: Tensor) -> None:
        self.outputs = outputs

    def __getattr__(self, name: str) -> Any:
        raise SpecError(WEIGHTED["each_expert"])

    def __mul__(self, weights: Tensor) -> Tensor:
        return self.outputs * weights.unsqueeze(-1)


def _one_expert(experts: Any, x: Tensor, expert: int) -> Tensor:
    def project(name: str, x: Tensor) -> Tensor:
        weight = getattr(experts, name)[expert]
        bias = getattr(experts, f"{name}_bias", None)
        out = x @ (weight if experts.is_transposed else weight.transpose(0, 1))
        return out if bias is None else out + bias[expert]

    if experts.has_gate:
        return project("down_proj", experts._apply_gate(project("gate_up_proj", x)))
    return project("down_proj", experts.act_fn(project("up_proj", x)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        softmax,
        softmax_beside,
        softcap,
        dot,
        mix,
        unmasked,
        side_by_side,
        linear,
        first_half,
        second_half,
        alibi_slopes,
        positions_from_start,
        positions_from_end,
        sigmoid,
        by_heads,
        in_bfloat16,
        counted,
        at_last_token,
        per_head,
        read_states,
        read_channels,
        sum_slots,
        each_expert,
        every_expert,
    )
}
