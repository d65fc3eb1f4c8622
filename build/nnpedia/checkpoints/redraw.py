"""Informative random weights: every parameter drawn anew, so that activations are of order one.

At a class's own initialisation much of a model is invisible: gains of one, biases of zero, logits near
zero. A tool that forgets a bias, takes a gain w for 1 + w or skips a softcap still agrees with it.
Here each shows. No architecture is named: a parameter's part is told from its module and from what
the class itself initialises it to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

SPREAD = 0.3  # of gains around their rest value, and of biases around zero
ROUTER = 2.0  # how much further than other projections a router spreads, so that experts differ by tokens
POSITION = 0.5  # of learned positions: seen, but not louder than the tokens
STREAM = 1.0  # rms aimed at where the first block reads
LOGITS = 2.5  # standard deviation aimed at in the logits


def redraw(model: Any, seed: int) -> None:
    """Draw every parameter and every trained buffer of a causal LM anew, in place, from one seeded generator.

    Matrices are N(0, 1/fan_in); a gain is 1 + 0.3 N, or 0.3 N where the class stores it as an offset from
    1; biases are 0.3 N; routers twice as wide as other matrices; token embeddings N(0, 1), then scaled so that what
    enters the first block has an rms near 1 and the logits a standard deviation of 1 to 5. Tied weights stay tied.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = model.get_input_embeddings().weight
    with torch.no_grad():
        for module, name, tensor in trained(model):
            scale = 1.0 if tensor is tokens else None
            tensor.copy_(_drawn(module, name, tensor, generator, scale))
        _calibrate(model, tokens, generator)


def trained(model: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Every parameter and persistent floating-point buffer once, with the module that owns it and its full name."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        for name, tensor in own:
            if name in module._non_persistent_buffers_set or not tensor.is_floating_point() or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            yield module, f"{path}.{name}" if path else name, tensor


def _drawn(module: nn.Module, name: str, tensor: Tensor, generator: torch.Generator, scale: float | None) -> Tensor:
    noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
    if isinstance(module, nn.Embedding):
        return noise * (POSITION if scale is None else scale)
    if _is_vector(module, name, tensor):
        # what the class starts from says what the vector is: a gain rests at one, an offset gain and a bias at
        # zero; a decay or a step size rests at values of its own, which are kept in range
        rest = tensor if bool(tensor.isfinite().all()) else torch.zeros_like(tensor)
        return rest + SPREAD * noise
    width = ROUTER if _is_router(module, name, tensor) else 1.0
    return noise * (width / math.sqrt(_fan_in(module, name, tensor)))


def _is_vector(module: nn.Module, name: str, tensor: Tensor) -> bool:
    """A gain, a bias or the like; stacked by expert or head, these have two dimensions or more."""
    leaf = name.rpartition(".")[2]
    return tensor.dim() < 2 or "bias" in leaf or "norm" in type(module).__name__.lower()


def _is_router(module: nn.Module, name: str, tensor: Tensor) -> bool:
    words = f"{type(module).__name__} {'.'.join(name.split('.')[-2:])}"
    return tensor.dim() == 2 and bool(re.search(r"router|(^|[ .])gate\.", words, re.IGNORECASE))


def _fan_in(module: nn.Module, name: str, tensor: Tensor) -> int:
    """How many inputs each output of a projection sums over."""
    if isinstance(module, Conv1D):  # [in, out]
        return tensor.shape[0]
    if isinstance(module, (nn.Conv1d, nn.Conv2d)):  # [out, in / groups, kernel...]
        return math.prod(tensor.shape[1:])
    if tensor.dim() == 3:  # stacked by expert: [experts, out, in], or [experts, in, out] where the class says so
        return tensor.shape[1 if getattr(module, "is_transposed", False) else 2]
    return tensor.shape[-1]  # [out, in]


def _calibrate(model: Any, tokens: Tensor, generator: torch.Generator) -> None:
    """Scale the embedding, then the head, by powers of two: exact, and the same on every machine."""
    ids = torch.randint(0, min(256, tokens.shape[0]), (2, 32), generator=generator)
    stream, _ = _levels(model, ids)
    tokens.mul_(_power(STREAM / stream))
    head = model.get_output_embeddings()
    if head is None:
        return
    _, logits = _levels(model, ids)
    if head.weight is not tokens:
        head.weight.mul_(_power(LOGITS / logits))
    elif logits > 2 * LOGITS:  # tied: what quietens the logits quietens the stream too, so no more than is needed
        tokens.mul_(_power(2 * LOGITS / logits, math.floor))
    elif logits < LOGITS / 2:
        tokens.mul_(_power(LOGITS / logits, math.floor))


def _power(ratio: float, rounded: Callable[[float], int] = round) -> float:
    return 2.0 ** rounded(math.log2(ratio)) if ratio > 0 and math.isfinite(ratio) else 1.0


def _levels(model: Any, ids: Tensor) -> tuple[float, float]:
    """The rms of what the first block reads, and the standard deviation of the logits."""
    stream: list[Tensor] = []
    first = blocks(model)[0]
    hook = first.register_forward_pre_hook(
        lambda _, args, kwargs: stream.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True
    )
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        hook.remove()
    return float(stream[0].pow(2).mean().sqrt()), float(logits.std())


def blocks(model: nn.Module) -> nn.ModuleList:
    """The stack of blocks: the longest list of modules of the shallowest depth that has any."""
    lists = {path: one for path, one in model.named_modules() if isinstance(one, nn.ModuleList)}
    return lists[min(lists, key=lambda path: (path.count("."), -len(lists[path])))]
