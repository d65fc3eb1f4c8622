"""Named readers: values an address alone cannot say, by the name a spec gives them.

A reader is a function of the host; it may read the host's other values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nnpedia.errors import Unavailable

if TYPE_CHECKING:
    from nnpedia.hosts import Hosting


@dataclass(frozen=True)
class Reader:
    """A reader, and its inverse where an assignment has one."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None] | None = None


READERS: dict[str, Reader] = {}


def reader(
    name: str, write: Callable[[Any, Any], None] | None = None
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a reader under the name specs use, with its inverse for assignments."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        READERS[name] = Reader(function, write)
        return function

    return register


@reader("call.input_size")
def input_size(host: Hosting) -> list[int]:
    """`[batch, seq]` of the current call, the batch being this invoke's rows."""
    call = host.root.step()
    return [host.root.rows().size, call.seq]


@reader("call.next_token_probs")
def next_token_probs(host: Hosting) -> torch.Tensor:
    """Softmax of the logits at each prompt's last real position, `[batch vocab_size]`.

    The last real position comes from the attention mask, so it is a real token on either padding
    side.
    """
    logits: torch.Tensor = host.logits  # type: ignore[attr-defined]
    rows, call = host.root.rows(), host.root.call()
    index = call.last[rows.start : rows.start + rows.size]
    if call.kept is not None or logits.shape[1] != call.seq:  # `logits_to_keep`: some positions, or the last ones
        last_ones = torch.arange(call.seq - logits.shape[1], call.seq, device=index.device)
        there = (last_ones if call.kept is None else call.kept) == index.unsqueeze(1)
        if not there.any(1).all():
            raise Unavailable(
                "next_token_probs", "logits_to_keep leaves out a prompt's last real position", where=host.place
            )
        index = there.int().argmax(1)
    return logits.gather(1, index.view(-1, 1, 1).expand(-1, 1, logits.shape[-1])).squeeze(1).softmax(-1)


def at(host: Hosting, address: str, native: str | None = None, layout: tuple[str, ...] = ()) -> Any:
    """What a place holds, read as a value would be; readers build on it."""
    from nnpedia.values import place_value

    return place_value(address, native, layout).__get__(host)


@reader("recurrence.state_input")
def state_input(host: Hosting) -> torch.Tensor:
    """The state a recurrent mixer starts from, in the layout of `state_output`; zero without a past."""
    from nnpedia.values import raw_at

    if host.root.step().cache is None:
        return _no_state(host)
    state = raw_at(host, str(host.family.values[host.host_name]["state_input"].of))
    pattern = host.family.pattern(host.family.values[host.host_name]["state_output"])
    # A copy: the kernel of a decode step writes the next state over this one.
    return (state if pattern is None else pattern.split(state, host.axis_sizes())).clone()


@reader("recurrence.step_state_input")
def step_state_input(host: Hosting) -> torch.Tensor:
    """The same where a call of several tokens starts from zero whatever the cache holds."""
    return state_input(host) if host.root.step().decodes else _no_state(host)


def _no_state(host: Hosting) -> torch.Tensor:
    spec = host.family.values[host.host_name]["state_output"]
    sizes = {**host.axis_sizes(), "batch": host.root.rows().size}
    return torch.zeros([sizes[axis] for axis in host.family.axes(spec)], device=host.module_device())


def _assign_kept_state(host: Hosting, value: torch.Tensor) -> None:
    _, state = _served_state(host, _after_the_kernel(host))
    state.copy_(_laid_out_as_kept(host, value))


@reader("recurrence.kept_state", _assign_kept_state)
def kept_state(host: Hosting) -> torch.Tensor:
    """The cache's state after a decode step, whose kernel writes it in place, in the layout of `state_output`.

    A copy, as the next step writes over it; what is edited in place goes back when the trace moves on.
    """
    from nnsight.intervention.eproperty import WriteBack
    from nnsight.intervention.interleaver import Mediator

    mediator = Mediator.current("kept_state")
    location = _after_the_kernel(host)
    occurrence = mediator.wanted(location)
    raw, state = _served_state(host, location)
    pattern = host.family.pattern(host.family.values[host.host_name]["state_output"])
    view = (state if pattern is None else pattern.split(state, host.axis_sizes())).clone()
    version = view._version

    def back() -> Any:
        if view._version != version:
            state.copy_(_laid_out_as_kept(host, view))
        return raw

    mediator.transform = WriteBack(back, view, kept_state, location, occurrence)
    return view


def _laid_out_as_kept(host: Hosting, value: torch.Tensor) -> torch.Tensor:
    pattern = host.family.pattern(host.family.values[host.host_name]["state_output"])
    return value if pattern is None else pattern.merge(value, value)


def _after_the_kernel(host: Hosting) -> str:
    """Where a decode step has the outputs of its kernel, which has written the state by then."""
    outputs = type(host).head_outputs.decoded  # type: ignore[attr-defined]
    location: str = outputs.locate(host)
    return location


def _served_state(host: Hosting, location: str) -> tuple[Any, torch.Tensor]:
    """The outputs of a decode step's kernel, and these rows of the state that it has left in the cache."""
    from nnpedia.steps import served

    raw = served(host, location)
    rows = host.root.rows()
    state: torch.Tensor = host.root.call().cache.layers[host.module.layer_idx].recurrent_states[0]
    return raw, state[rows.start : rows.start + rows.size]


@reader("mamba2.step_decays")
def step_decays(host: Hosting) -> torch.Tensor:
    """Decays of a decode step `[batch 1 state_heads]`, which its kernel spreads over keys and values."""
    from nnpedia.values import raw_at

    spread = raw_at(host, "@mamba2_selective_state_update_0@implementation_0@torch_exp_0.input")
    return spread[..., 0, 0].unsqueeze(1)


@reader("recurrence.additive_states")
def additive_states(host: Hosting) -> torch.Tensor:
    """`S_t = exp(decay_t) S_{t-1} + beta_t k_t v_tᵀ`, `[batch seq state_heads key_dim value_dim]`, in float32."""
    state, keys, values, betas, decays = _recurrence(host)
    states = []
    for token in range(keys.shape[1]):
        write = (keys[:, token].unsqueeze(-1) * values[:, token].unsqueeze(-2)) * betas[:, token, :, None, None]
        state = state * decays[:, token, :, None, None].exp() + write
        states.append(state)
    return torch.stack(states, dim=1)


@reader("recurrence.delta_states")
def delta_states(host: Hosting) -> torch.Tensor:
    """The gated delta rule: what the decayed state already holds at a key is subtracted before the write.

    `[batch seq state_heads key_dim value_dim]`, in float32 (Yang et al., Gated Delta Networks, 2024).
    """
    state, keys, values, betas, decays = _recurrence(host)
    states = []
    for token in range(keys.shape[1]):
        key = keys[:, token].unsqueeze(-1)
        state = state * decays[:, token, :, None, None].exp()
        held = (state * key).sum(-2)
        new = (values[:, token] - held) * betas[:, token].unsqueeze(-1)
        state = state + key * new.unsqueeze(-2)
        states.append(state)
    return torch.stack(states, dim=1)


@reader("recurrence.channel_states")
def channel_states(host: Hosting) -> torch.Tensor:
    """`S_t = exp(decay_t) S_{t-1} + beta_t v_t k_t` per channel, `[batch seq channels state_dim]`, in float32.

    Each channel of a Mamba mixer holds a state of its own (Gu and Dao, Mamba, 2023).
    """
    state, keys, values, betas, decays = _recurrence(host)
    states = []
    for token in range(keys.shape[1]):
        write = (betas[:, token] * values[:, token]).unsqueeze(-1) * keys[:, token].unsqueeze(-2)
        state = state * decays[:, token].exp() + write
        states.append(state)
    return torch.stack(states, dim=1)


def _recurrence(host: Any) -> tuple[torch.Tensor, ...]:
    """State, keys (one per state head), values, betas and decays, in float32, read in the forward's order."""
    state = host.read("state_input")
    order = host.root.forward_names(host.host_name, "keys", "values", "betas", "decays")
    found = {name: host.read(name).float() for name in order}
    keys = found["keys"]
    if keys.dim() == 4:  # one key per group of state heads
        keys = keys.repeat_interleave(state.shape[1] // keys.shape[2], dim=2)
    return state.float(), keys, found["values"], found["betas"], found["decays"]
