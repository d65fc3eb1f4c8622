"""From a recording to the value of every standard name it holds, in the name's layout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from oracle.mechanisms import ATTENTIONS, BLOCKS, MLPS, RECURRENCES, STACKS, Mechanism, Place
from oracle.recording import Recording

#: (layer, host, name) to the tensor there; the layer of a root value is None.
Answers = dict[tuple[int | None, str, str], Any]

#: Values whose tensor the model keeps with heads side by side, to be split.
_BY_HEADS = {"attention_premix"}


class UnknownMechanism(LookupError):
    """A module whose weight-holding children no mechanism names."""


def answers(recording: Recording) -> Answers:
    """Every value the recorded forward gives; raises `UnknownMechanism` naming what has no entry."""
    module: Any = recording.module
    # a text model out of a multimodal one may keep the prefix it has there
    root = next(name for name in (module.base_model_prefix, "model") if hasattr(module, name))
    found: Answers = {}
    stack = _recognize(module.get_submodule(root), STACKS, root)
    _take(recording, None, root, stack, found)
    for layer, block in enumerate(module.get_submodule(f"{root}.{stack.parts['blocks']}")):
        path = f"{root}.{stack.parts['blocks']}.{layer}"
        kind = _recognize(block, BLOCKS, path)
        _take(recording, layer, path, kind, found)
        for role, kinds in (("recurrent", RECURRENCES), ("attention", ATTENTIONS), ("mlp", MLPS)):
            if role in kind.parts:
                child = f"{path}.{kind.parts[role]}"
                _take(recording, layer, child, _recognize(module.get_submodule(child), kinds, child), found)
    return found | _of_the_call(recording)


def _of_the_call(recording: Recording) -> Answers:
    """What belongs to the call and not to a module: tokens, mask, logits, the next token."""
    mask, logits = recording.inputs["attention_mask"], recording.logits
    places = torch.arange(mask.shape[1]).expand_as(mask)
    last = torch.where(mask.bool(), places, -1).max(-1).values
    root: dict[str, Any] = {
        "input_ids": recording.inputs["input_ids"],
        "attention_mask": mask,
        "input_size": list(mask.shape),
        "lm_head_output": recording.calls["lm_head"].returned,
        "logits": logits,
        "next_token_probs": torch.softmax(logits[torch.arange(len(last)), last], dim=-1),
    }
    return {(None, "model", name): value for name, value in root.items()}


def _recognize(module: nn.Module, kinds: tuple[Mechanism, ...], path: str) -> Mechanism:
    children = frozenset(name for name, child in module.named_children() if any(True for _ in child.parameters()))
    for kind in kinds:
        if kind.children == children and all(hasattr(module, number) for number in kind.numbers):
            return kind
    raise UnknownMechanism(
        f"{path} ({type(module).__name__}) holds {', '.join(sorted(children))}: "
        "no mechanism of tests/oracle/mechanisms.py does; add one"
    )


def _take(recording: Recording, layer: int | None, path: str, kind: Mechanism, found: Answers) -> None:
    for value, place in kind.values.items():
        host, name = value.split(".")
        tensor = _at(recording, f"{path}.{place.child}" if place.child else path, place)
        if tensor is not None:
            if place.how is not None:
                tensor = place.how(tensor, recording.module.config)
            if place.times is not None:
                tensor = tensor * getattr(recording.module.get_submodule(path), place.times)
            if place.gate is not None:
                tensor = torch.sigmoid(recording.calls[f"{path}.{place.gate}"].returned) * tensor
            found[layer, host, name] = _laid_out(recording, name, tensor)


def _at(recording: Recording, path: str, place: Place) -> Tensor | None:
    if place.side == "inner":
        return recording.inner.get(path, {}).get(str(place.element))
    call = recording.calls[path]
    assert call.times == 1, f"{path} runs {call.times} times in one forward: which call is meant?"
    if place.side == "argument":
        if isinstance(place.element, str):
            return call.keywords[place.element]
        everything = [*call.arguments, *call.keywords.values()]
        return everything[place.element or 0]
    if isinstance(place.element, int):
        return call.returned[place.element]
    # A sublayer that returns a tuple puts its tensor first.
    return call.returned[0] if isinstance(call.returned, tuple) else call.returned


def _laid_out(recording: Recording, name: str, tensor: Tensor) -> Tensor:
    """The prompts of the call on an axis of their own, and heads on theirs."""
    batch, seq = recording.inputs["input_ids"].shape
    if name in _BY_HEADS:
        config: Any = recording.module.config
        return tensor.reshape(batch, seq, config.num_attention_heads, -1)
    return tensor.reshape(batch, seq, *tensor.shape[1:]) if tensor.shape[0] == batch * seq != batch else tensor
