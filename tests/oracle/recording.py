"""One forward of a plain transformers model, with every module's call and every attention recorded."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from oracle.arithmetic import ATTENTION, EXPERTS, watching
from oracle.products import Products
from oracle.recurrence import listening


@dataclass
class Call:
    """What a module was called with and what it gave, every tensor a copy taken at that moment."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    returned: Any = None
    times: int = 1


@dataclass
class Recording:
    """A forward: the calls by the module's path, and the inner quantities by the same path.

    Attributes:
        inner: Path of an attention or experts module to the named tensors inside its arithmetic.
    """

    module: nn.Module
    inputs: Mapping[str, Tensor]
    logits: Tensor
    calls: dict[str, Call] = field(default_factory=dict)
    inner: dict[str, dict[str, Tensor]] = field(default_factory=dict)


def load(folder: Path, experts: str | None = None) -> nn.Module:
    """The checkpoint, its attention computed by the oracle's function where its class takes one.

    `experts` is the oracle's own function (`"oracle"`), one of transformers', or None for a dense model.
    """
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    # A class that looks its attention up in the registry takes one registered here, whatever it says it supports.
    takes_one = hasattr(inspect.getmodule(getattr(transformers, config.architectures[0])), "ALL_ATTENTION_FUNCTIONS")
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation=ATTENTION if takes_one else "eager"
    )
    if experts is not None:
        model.set_experts_implementation(EXPERTS if experts == "oracle" else experts)
    return model.eval()


def record(module: nn.Module, inputs: Mapping[str, Tensor]) -> Recording:
    """Run one forward without cache and keep everything that passed between modules."""
    calls: dict[str, Call] = {}
    handles = []
    products = Products()

    def before(path: str) -> Any:
        def hook(part: nn.Module, arguments: Any, keywords: Any) -> None:
            products.running.append(part)
            times = calls[path].times + 1 if path in calls else 1
            calls[path] = Call(kept(arguments), kept(keywords), times=times)

        return hook

    def after(path: str) -> Any:
        def hook(_: nn.Module, arguments: Any, keywords: Any, returned: Any) -> None:
            calls[path].returned = kept(returned)
            products.running.pop()

        return hook

    for path, part in module.named_modules():
        if path:
            handles.append(part.register_forward_pre_hook(before(path), with_kwargs=True))
            handles.append(part.register_forward_hook(after(path), with_kwargs=True))
    paths = {part: path for path, part in module.named_modules()}
    try:
        with torch.no_grad(), watching() as inner, products, listening(module, products.running, inner):
            logits = module(**inputs, use_cache=False).logits
    finally:
        for handle in handles:
            handle.remove()
    # What the registered function kept of a module stands over what its products would say.
    inner = products.attentions(len(inputs["input_ids"])) | inner
    inside = {paths[part]: quantities for part, quantities in inner.items()}
    return Recording(module, {key: value.clone() for key, value in inputs.items()}, logits, calls, inside)


def kept(thing: Any) -> Any:
    """A copy that later work in place cannot reach."""
    if isinstance(thing, Tensor):
        return thing.detach().clone()
    if isinstance(thing, (tuple, list)):
        return tuple(kept(item) for item in thing)
    if isinstance(thing, dict):
        return {key: kept(item) for key, item in thing.items()}
    return thing
