"""The kernels of recurrent mixers, listened to, and their recurrences written out token by token."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

#: What the kernels sum chunk by chunk, or in another order, is equal to rounding only.
REPLAYED = {"states", "state_output", "head_outputs"}

Quantities = dict[str, Tensor]


def _replay(writes: Tensor, factors: Tensor) -> Tensor:
    """`[batch seq …]` states that start from zero, shrink by a factor and take a write at each token."""
    state, states = torch.zeros_like(writes[:, 0]), []
    for token in range(writes.shape[1]):
        state = factors[:, token] * state + writes[:, token]
        states.append(state)
    return torch.stack(states, 1)


def _with_ends(found: Quantities) -> Quantities:
    states = found["states"]
    return found | {"state_input": torch.zeros_like(states[:, 0]), "state_output": states[:, -1]}


def mamba2(given: dict[str, Any], returned: Any) -> Quantities:
    """A state per head, one decay for all of it; keys and queries shared by groups of heads."""
    values, keys, queries = given["hidden_states"], given["B"], given["C"]
    betas = softplus(given["dt"] + given["dt_bias"]).clamp(*given["dt_limit"])
    decays = given["A"] * betas
    times = values.shape[2] // keys.shape[2]
    every_key, every_query = keys.repeat_interleave(times, 2), queries.repeat_interleave(times, 2)
    writes = torch.einsum("bshk,bshv,bsh->bshkv", every_key, values, betas)
    states = _replay(writes, decays.exp()[..., None, None])
    heads = torch.einsum("bshkv,bshk->bshv", states, every_query) + values * given["D"][:, None]
    return _with_ends(
        {"values": values, "keys": keys, "queries": queries, "betas": betas, "decays": decays}
        | {"states": states, "head_outputs": heads}
    )


def mamba(given: dict[str, Any], returned: Any) -> Quantities:
    """A state per channel, each entry with a decay of its own; one key and query for all channels."""
    values, keys, queries = (given[name].transpose(1, 2) for name in ("hidden_states", "B", "C"))
    betas = softplus(given["dt"] + given["delta_bias"][:, None]).transpose(1, 2)
    decays = given["A"] * betas[..., None]
    states = _replay(torch.einsum("bsn,bsc->bscn", keys, values * betas), decays.exp())
    heads = torch.einsum("bscn,bsn->bsc", states, queries) + values * given["D"]
    return _with_ends(
        {"values": values, "keys": keys, "queries": queries, "betas": betas, "decays": decays}
        | {"states": states, "head_outputs": heads}
    )


def gated_delta_rule(given: dict[str, Any], returned: Any) -> Quantities:
    """What the decayed state already gives at a key is taken off the value before it is written there."""
    values, decays, betas = given["value"], given["g"], given["beta"]
    times = values.shape[2] // given["key"].shape[2]
    queries, keys = (given[name].repeat_interleave(times, 2) for name in ("query", "key"))
    queries, keys = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (queries, keys))
    queries = queries * queries.shape[-1] ** -0.5
    state = torch.zeros(*values.shape[:1], *values.shape[2:3], keys.shape[-1], values.shape[-1])
    states = []
    for token in range(values.shape[1]):
        key = keys[:, token]
        state = state * decays[:, token].exp()[..., None, None]
        missing = values[:, token] - torch.einsum("bhkv,bhk->bhv", state, key)
        state = state + torch.einsum("bhk,bhv,bh->bhkv", key, missing, betas[:, token])
        states.append(state)
    every = torch.stack(states, 1)
    heads = torch.einsum("bshkv,bshk->bshv", every, queries)
    return _with_ends(
        {"values": values, "keys": keys, "queries": queries, "betas": betas, "decays": decays}
        | {"states": every, "head_outputs": heads}
    )


KERNELS: dict[str, Callable[[dict[str, Any], Any], Quantities]] = {
    "mamba2_chunk_scan": mamba2,
    "mamba_selective_scan": mamba,
    "torch_chunk_gated_delta_rule": gated_delta_rule,
}


@contextmanager
def listening(model: nn.Module, running: list[nn.Module], inner: dict[nn.Module, Quantities]) -> Iterator[None]:
    """While it lasts, what a kernel is given is kept for the innermost module that is running."""
    source: Any = sys.modules[type(model).__module__]
    kernels = {name: getattr(source, name) for name in KERNELS if hasattr(source, name)}

    def heard(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            bound = inspect.signature(kernel).bind(*arguments, **keywords)
            bound.apply_defaults()
            given = {
                key: value.clone() if isinstance(value, Tensor) else value for key, value in bound.arguments.items()
            }
            returned = kernel(*arguments, **keywords)
            assert running[-1] not in inner, f"{name} runs twice in one mixer"
            inner[running[-1]] = KERNELS[name](given, returned)
            return returned

        return call

    for name, kernel in kernels.items():
        setattr(source, name, heard(name, kernel))
    try:
        yield
    finally:
        for name, kernel in kernels.items():
            setattr(source, name, kernel)
