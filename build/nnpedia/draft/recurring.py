"""Recurrences by what they compute: the tensors that, written into a state token by token, end in the state kept.

The state a cache keeps is told by the cache's own call. Keys, values, rates and decays are those tensors of the
forward with which a recurrence of the encyclopedia, replayed from nothing, gives it; queries and head outputs those
that read the replayed states so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nnpedia.draft.places import laid_out, same
from nnpedia.draft.recording import Event, Recording

CLOSE = 256.0  # epsilons: a kernel sums in chunks, a replay token by token
HEADS = {"values": "StateValues", "betas": "StateRates", "decays": "StateRates", "head_outputs": "StateValues"}
CHANNELS = {
    "queries": "ChannelKeys", "keys": "ChannelKeys", "values": "ChannelValues", "betas": "ChannelValues",
    "decays": "ChannelDecays", "states": "ChannelStates", "head_outputs": "ChannelValues",
    "state_input": "ChannelState", "state_output": "ChannelState",
}  # fmt: skip


@dataclass
class Recurrence:
    """A recurrence as it was seen.

    Attributes:
        targets: Value name to its tensor, in the layout it has.
        layouts: Value name to its layout, where that is not the vocabulary's.
        reader: Which of the encyclopedia's recurrences replays the states.
        sizes: The lengths of its axes.
    """

    targets: dict[str, Tensor]
    layouts: dict[str, str]
    reader: str
    sizes: dict[str, int] = field(default_factory=dict)


def see_recurrence(recording: Recording, module: nn.Module, host: str) -> Recurrence | None:
    """The recurrence of one mixer; `None` where no tensors of its forward, replayed, end in the state kept."""
    events = [event for event in recording.within(host) if event.operations and event.tensor.is_floating_point()]
    kept = next((event for event in events if is_kept(event)), None)
    if kept is None:
        return None
    before = [event for event in events if event.order < kept.order]
    if kept.tensor.dim() == 4:
        found = _by_heads(before, kept.tensor)
    else:
        found = _by_channels(before, kept.tensor) if kept.tensor.dim() == 3 else None
    return found if found is not None and _read(found, events, module) else None


def is_kept(event: Event) -> bool:
    """Whether a tensor is what the cache is given to keep as a recurrent mixer's state."""
    whole = event.access == "input" and len(event.operations) == 1
    return whole and "update_recurrent_state" in event.operations[0]


def _laid(events: list[Event], axes: tuple[str, ...], sizes: dict[str, int]) -> list[Tensor]:
    """The distinct tensors among events that may have these axes, laid out so."""
    found: dict[tuple[float, float], Tensor] = {}
    length = 1
    for axis in axes:
        length *= sizes[axis]
    for event in events:
        if event.tensor.numel() == length:
            for _, tensor in laid_out(event.tensor, axes, sizes):
                tensor = tensor.float()
                weights = torch.arange(1.0, length + 1).double().view(tensor.shape)
                key = (float((tensor.double() * weights).sum()), float(tensor.double().abs().sum()))
                found.setdefault(key, tensor)
    return list(found.values())


def _lengths(events: list[Event]) -> Iterator[tuple[int, int]]:
    """Batch and sequence of the mixer's forward, as its first tensor has them."""
    yield from ((event.tensor.shape[0], event.tensor.shape[1]) for event in events[:1])


def _by_heads(events: list[Event], kept: Tensor) -> Recurrence | None:
    """A state of each head, a matrix from keys to values."""
    for batch, seq in _lengths(events):
        for state in (kept, kept.transpose(2, 3)):
            heads, keyed, valued = state.shape[1:]
            sizes = {"batch": batch, "seq": seq, "state_heads": heads, "key_dim": keyed, "value_dim": valued}
            values = _laid(events, ("batch", "seq", "state_heads", "value_dim"), sizes)
            rates = _laid(events, ("batch", "seq", "state_heads"), sizes)
            decays = [rate for rate in rates if bool((rate <= 0).all()) and bool(rate.any())]
            betas = [rate for rate in rates if bool((rate >= 0).all()) and bool(rate.any())]
            for groups in (count for count in range(1, heads + 1) if heads % count == 0):
                sizes["groups"] = groups
                for keys in _laid(events, ("batch", "seq", "groups", "key_dim"), sizes):
                    whole = keys.repeat_interleave(heads // groups, 2)
                    for entering in ((v, b, d) for v in values for b in betas for d in decays):
                        for reader in ("additive", "delta"):
                            states = _replay(reader, whole, *entering)
                            if states is not None and same(states[:, -1], state.float(), CLOSE):
                                named = dict(zip(("values", "betas", "decays"), entering, strict=True))
                                targets = {"keys": keys, **named, "states": states, "state_output": state}
                                return Recurrence(targets, {}, f"recurrence.{reader}_states", dict(sizes))
    return None


def _replay(reader: str, keys: Tensor, values: Tensor, betas: Tensor, decays: Tensor) -> Tensor | None:
    """`[batch seq heads key value]` states from none on, by the additive or the delta rule."""
    state = torch.zeros(*keys.shape[:1], *keys.shape[2:], values.shape[-1])
    states = []
    for token in range(keys.shape[1]):
        key = keys[:, token].unsqueeze(-1)
        state = state * decays[:, token, :, None, None].exp()
        new = values[:, token] - ((state * key).sum(-2) if reader == "delta" else 0.0)
        state = state + key * (new * betas[:, token].unsqueeze(-1)).unsqueeze(-2)
        states.append(state)
    return torch.stack(states, 1) if bool(state.isfinite().all()) else None


def _by_channels(events: list[Event], kept: Tensor) -> Recurrence | None:
    """A state of each channel, a vector, and its own decay for each entry.

    A rate and a value are told apart by the decays, which are a rate times what no token changes.
    """
    for batch, seq in _lengths(events):
        channels, width = kept.shape[1:]
        sizes = {"batch": batch, "seq": seq, "channels": channels, "state_dim": width}
        whole = _laid(events, ("batch", "seq", "channels", "state_dim"), sizes)
        decays = [one for one in whole if bool((one <= 0).all()) and bool(one.any())]
        inner = _laid(events, ("batch", "seq", "channels"), sizes)
        for decay in decays:
            spread = decay.flip(1).cumsum(1).flip(1) - decay
            for beta in (one for one in inner if bool((one > 0).all()) and _turns(decay, one)):
                for keys in _laid(events, ("batch", "seq", "state_dim"), sizes):
                    for value in inner:
                        write = (beta * value).unsqueeze(-1) * keys.unsqueeze(-2)
                        if not same((write * spread.exp()).sum(1), kept.float(), CLOSE):
                            continue
                        states, state = [], torch.zeros_like(kept.float())
                        for token in range(seq):
                            state = state * decay[:, token].exp() + write[:, token]
                            states.append(state)
                        targets = {"keys": keys, "values": value, "betas": beta, "decays": decay}
                        targets |= {"states": torch.stack(states, 1), "state_output": kept}
                        return Recurrence(targets, dict(CHANNELS), "recurrence.channel_states", sizes)
    return None


def _turns(decay: Tensor, beta: Tensor) -> bool:
    """Whether decays are a rate times what is the same at every token."""
    ratio = decay / beta.unsqueeze(-1)
    return bool(torch.allclose(ratio, ratio[:1, :1].expand_as(ratio), rtol=1e-3, atol=1e-5))


def _read(found: Recurrence, events: list[Event], module: nn.Module) -> bool:
    """The queries that read the states, and what they give; into `found`."""
    states, values, channels = found.targets["states"], found.targets["values"], bool(found.layouts)
    axes = ("batch", "seq", "channels") if channels else ("batch", "seq", "state_heads", "value_dim")
    outs = _laid(events, axes, found.sizes)
    skips = []  # what a skip adds belongs to the outputs: the sum is looked for first
    for parameter in module.parameters(recurse=False):
        if parameter.dim() == 1 and parameter.shape[0] == values.shape[2]:
            gain = parameter.detach().float()
            skips.append(values * (gain if channels else gain[:, None]))
    groups = 0 if channels else found.sizes["groups"]
    keyed = ("batch", "seq", "state_dim") if channels else ("batch", "seq", "groups", "key_dim")
    skips.append(0.0 * values)
    choices = _laid(events, keyed, found.sizes)
    for skip in skips:
        for queries in choices:
            read = _reading(states, queries, groups)
            made = next((out for out in outs if same(read + skip, out, CLOSE)), None)
            if made is not None:
                found.targets |= {"queries": queries, "head_outputs": made}
                return True
    return False


def _reading(states: Tensor, queries: Tensor, groups: int) -> Tensor:
    """States read with queries; `groups` of them share a query, and states of channels (0) all do."""
    if groups == 0:
        return torch.matmul(states, queries.unsqueeze(-1)).squeeze(-1)
    spread = queries.repeat_interleave(states.shape[2] // groups, 2)
    return (states * spread.unsqueeze(-1)).sum(-2)
