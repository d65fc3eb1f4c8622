"""MLPs and mixtures by what they compute: projections, activation and neurons; router, experts and slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nnpedia.draft.gating import stays
from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.sharing import see_shared
from nnpedia.draft.tree import Block, Sublayer, is_linear
from nnpedia.draft.trial import tokens
from nnpedia.draft.weighted import see_weighted_inputs


@dataclass
class Feeding:
    """What an MLP or a mixture computes, in standard layouts.

    Attributes:
        targets: Value name to its candidates, best first.
        why: Value name to the reason it was not found.
        layouts: Value name to its layout, where that is not the vocabulary's.
        absent: Value name to the reason this block has no such value, when that was seen.
        roles: Standard name to the native path of the module that has the role.
    """

    targets: dict[str, list[Tensor]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    mixture: bool = False
    gated: bool | None = None
    fused: bool = False


def see_feeding(
    model: nn.Module,
    recordings: Mapping[str, Recording],
    first: Recording,
    block: Block,
    part: Sublayer,
    scales: Mapping[str, float],
) -> Feeding:
    """The values of one MLP or mixture; `recordings` are by load, as expert outputs exist under some only."""
    found = Feeding()
    experts = _experts(model, first, part)
    if experts is not None:
        found.mixture = True
        found.roles["experts"] = experts
        _mixture(model, recordings, first, part, experts, found)
        if routed := found.targets.get("routed_output"):
            see_shared(first, block, part, routed[0], found, scales)
    else:
        _dense(model, first, block, part, found)
    return found


# -- dense --------------------------------------------------------------------------------------------------------


def _dense(model: nn.Module, recording: Recording, block: Block, part: Sublayer, found: Feeding) -> None:
    linears = _linears(model, recording, part)
    tokens = part.contribution.shape[0] * part.contribution.shape[1]
    if len(linears) < 2:
        for name in ("mlp_activation", "mlp_neurons"):
            found.why[name] = "the MLP has fewer than two projections of its own"
        return
    down, (entered, _) = linears[-1]
    width = entered.tensor.numel() // tokens
    found.roles["down_proj"], found.sizes["intermediate_size"] = down, width
    neurons = entered.tensor.reshape(*part.contribution.shape[:2], width)
    found.targets["mlp_neurons"] = [neurons]
    reads = linears[0][1][0].tensor
    ups = [
        (path, made.tensor.reshape(*neurons.shape[:2], -1))
        for path, (read, made) in linears[:-1]
        if read.tensor.shape == reads.shape and torch.equal(read.tensor, reads)
    ]
    activation = _activation(model, recording, part, neurons, ups, found)
    if activation is None:
        found.why["mlp_activation"] = "no tensor of the forward is the neurons, or gives them times a projection"
        return
    found.targets["mlp_activation"] = [activation]


def _linears(model: nn.Module, recording: Recording, part: Sublayer) -> list[tuple[str, tuple[Event, Event]]]:
    """The linear maps the MLP calls, in order, with what they read and give."""
    called: list[tuple[int, str, tuple[Event, Event]]] = []
    for name, module in model.get_submodule(part.host).named_modules():
        path = f"{part.host}.{name}"
        entered, made = recording.at(path, (), "input", ()), recording.at(path, (), "output", ())
        if not (name and is_linear(module) and entered and made):
            continue
        if part.virtual and "." in name:
            continue  # of another sublayer: this MLP's projections are the block's own children
        called.append((entered.order, path, (entered, made)))
    return [(path, events) for _, path, events in sorted(called, key=lambda one: one[0])]


def _activation(
    model: nn.Module,
    recording: Recording,
    part: Sublayer,
    neurons: Tensor,
    ups: list[tuple[str, Tensor]],
    found: Feeding,
) -> Tensor | None:
    tensors = {path: (made, path, slice(None)) for path, made in ups}
    for path, made in ups:  # one projection for gate and up side by side
        if made.shape[-1] == 2 * neurons.shape[-1]:
            width = neurons.shape[-1]
            found.fused, found.gated = True, True
            found.roles["gate_up_proj"] = path
            cuts = {"0": slice(0, width), "1": slice(width, None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}
            tensors = {f"{path} {name}": (made[..., cut], path, cut) for name, cut in cuts.items()}
    candidates = [
        event
        for event in recording.within(part.host)
        if event.access == "output" and event.tensor.numel() == neurons.numel() and event.tensor.is_floating_point()
    ]
    modules = {path for path, module in model.named_modules() if not list(module.parameters())}
    own = [event for event in candidates if event.module in modules and not event.operations]
    apart = [event for event in [*own, *candidates] if not _is_one_of(event.tensor.reshape(neurons.shape), tensors)]
    for event in apart:
        value = event.tensor.reshape(neurons.shape)
        for up, (made, path, cut) in tensors.items():
            # a function of the up projection times itself, such as the square of a ReLU, has no gate
            if same(value * made, neurons, 3.0) and stays(model, tokens(), event, path, cut):
                found.gated = True
                _note_roles(model, recording, event, [path for path, _ in ups], up, found)
                return value
    for event in apart:
        value = event.tensor.reshape(neurons.shape)
        if same(value, neurons):
            found.gated = False
            if event in own:
                found.roles["act_fn"] = event.module
            if len(ups) == 1:
                found.roles["up_proj"] = ups[0][0]
            return value
    return None


def _is_one_of(value: Tensor, tensors: Mapping[str, tuple[Tensor, str, slice]]) -> bool:
    return any(torch.equal(value, one) for one, _, _ in tensors.values())


def _note_roles(
    model: nn.Module,
    recording: Recording,
    event: Event,
    ups: list[str],
    up: str,
    found: Feeding,
) -> None:
    if not event.operations and not list(model.get_submodule(event.module).parameters()):
        found.roles["act_fn"] = event.module
    if found.fused:
        return
    found.roles["up_proj"] = up
    others = [path for path in ups if path != up]
    if len(others) == 1:
        found.roles["gate_proj"] = others[0]


# -- mixture ------------------------------------------------------------------------------------------------------


def _experts(model: nn.Module, recording: Recording, part: Sublayer) -> str | None:
    """The module that is called with tokens, a whole number for each of their slots, and a factor for each."""
    if part.virtual:
        return None
    for name, module in model.get_submodule(part.host).named_modules():
        path = f"{part.host}.{name}" if name else part.host
        stacked = any(parameter.dim() == 3 for parameter in module.parameters(recurse=False))
        if stacked or (isinstance(module, nn.ModuleList) and len(module) > 2):
            return path
        called = name and "expert" in type(module).__name__.lower() and recording.at(path, (), "input", ()) is not None
        if called and any(isinstance(child, nn.ModuleList) for child in module.children()):
            return path
    return None


def _mixture(
    model: nn.Module,
    recordings: Mapping[str, Recording],
    first: Recording,
    part: Sublayer,
    experts: str,
    found: Feeding,
) -> None:
    batch, seq, hidden = part.contribution.shape
    tokens = batch * seq
    inside = first.within(experts)
    given = [e for e in inside if e.module == experts and not e.operations and e.access in ("args", "kwargs")]
    indices = next((e for e in given if not e.tensor.is_floating_point() and e.tensor.numel() % tokens == 0), None)
    if indices is None:
        for name in ("expert_indices", "expert_weights", "expert_outputs"):
            found.why[name] = "the experts are not called with one whole number for each slot of a token"
    else:
        slots = indices.tensor.numel() // tokens
        found.sizes["top_k"] = slots
        found.targets["expert_indices"] = [indices.tensor.reshape(batch, seq, slots)]
        weights = [e for e in given if e.tensor.is_floating_point() and e.tensor.numel() == tokens * slots]
        if weights:
            found.targets["expert_weights"] = [weights[-1].tensor.reshape(batch, seq, slots)]
        else:
            found.why["expert_weights"] = "the experts are not called with a factor for each slot"
    made = first.at(experts, (), "output", ()) or first.at(experts, (), "output", (0,))
    weighted = indices is None and see_weighted_inputs(first, part, experts, found)
    if not weighted and (made is None or made.tensor.numel() != tokens * hidden):
        found.why["routed_output"] = "the experts are not one module that returns their sum"
    elif not weighted and made is not None:
        routed = made.tensor.reshape(batch, seq, hidden)
        found.targets["routed_output"] = [routed]
        _slots(recordings, experts, routed, found)
    _router(model, first, part, found)


def _slots(recordings: Mapping[str, Recording], experts: str, routed: Tensor, found: Feeding) -> None:
    slots = found.sizes.get("top_k")
    if slots is None:
        return
    batch, seq, hidden = routed.shape
    for recording in recordings.values():
        for event in recording.within(experts):
            if event.tensor.numel() != routed.numel() * slots or not event.tensor.is_floating_point():
                continue
            if event.tensor.shape[-1] != hidden or event.access != "output":
                continue
            outputs = event.tensor.reshape(batch, seq, slots, hidden)
            if same(outputs.sum(2), routed, 16.0) and (slots > 1 or event.operations):
                found.targets["expert_outputs"] = [outputs]
                return
    found.why["expert_outputs"] = "no tensor of the experts' forward, summed over slots, is their output"


def _router(model: nn.Module, recording: Recording, part: Sublayer, found: Feeding) -> None:
    """Logits of the experts: a linear map of what the mixture reads, one number for each expert."""
    batch, seq, _ = part.contribution.shape
    entered = recording.at(part.host, (), "input", ())
    if entered is None:
        return
    reads = entered.tensor.reshape(batch * seq, -1)
    for name, module in model.get_submodule(part.host).named_modules():
        for weight in module.parameters(recurse=False):
            if weight.dim() != 2 or weight.shape[1] != reads.shape[1] or weight.shape[0] == weight.shape[1]:
                continue
            logits = reads @ weight.detach().float().t()
            bias = getattr(module, "bias", None)
            choices = [logits] if not isinstance(bias, Tensor) else [logits, logits + bias.detach()]
            for event in recording.within(part.host):
                if event.tensor.numel() != logits.numel() or not event.tensor.is_floating_point():
                    continue
                is_map = any(same(event.tensor.reshape(logits.shape), one, 32.0) for one in choices)
                if is_map and _selects(weight.shape[0], found):
                    found.targets["router_logits"] = [event.tensor.reshape(batch, seq, -1)]
                    found.roles["router"] = f"{part.host}.{name}"
                    found.sizes["num_experts"] = weight.shape[0]
                    return
    found.why["router_logits"] = "no tensor of the mixture is a linear map of what it reads with a number per expert"


def _selects(experts: int, found: Feeding) -> bool:
    """Whether a map to so many numbers may be the router: the chosen experts are among them."""
    indices = found.targets.get("expert_indices")
    return experts > 1 and (not indices or experts > int(indices[0].max()))
