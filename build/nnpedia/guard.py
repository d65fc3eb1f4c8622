"""Guard: nothing a snippet does outlasts it, in the process or in the model.

Process-wide settings are put back. The model is not: a note that leaves it changed would give
its reader wrong numbers in the next cell, so the change is reported and the model dropped.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

PRECISION, THRESHOLD, LINEWIDTH = 4, 50, 100


@contextmanager
def settings_put_back() -> Iterator[None]:
    """Start from known settings and seeds, and put back dtype, device, grad mode, seeds and print options."""
    import torch
    from torch._tensor_str import get_printoptions

    numpy: Any = sys.modules.get("numpy")
    dtype, device, grad = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    printing = get_printoptions()
    seeds = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    numpy_printing = numpy and numpy.get_printoptions()
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_printoptions(
        precision=PRECISION, threshold=THRESHOLD, edgeitems=3, linewidth=LINEWIDTH, profile=None, sci_mode=None
    )
    torch.manual_seed(0)
    random.seed(0)
    if numpy:
        numpy.random.seed(0)
        numpy.set_printoptions(precision=PRECISION, threshold=THRESHOLD, linewidth=LINEWIDTH)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(device)
        torch.set_grad_enabled(grad)
        torch.set_printoptions(**printing)
        torch.set_rng_state(seeds[0])
        random.setstate(seeds[1])
        if numpy:
            numpy.random.set_state(seeds[2])
            numpy.set_printoptions(**numpy_printing)


@dataclass(frozen=True)
class ModelState:
    """What must be the same after a snippet, per name of a tensor or module."""

    weights: dict[str, object]
    modules: dict[str, object]
    training: dict[str, object]
    requires_grad: dict[str, object]
    gradients: dict[str, object]
    hooks: dict[str, object]
    edits: dict[str, object]
    config: dict[str, object]


_SAID = {
    "weights": "weights changed: {names}",
    "modules": "modules were replaced: {names}",
    "training": "train/eval mode changed: {names}",
    "requires_grad": "requires_grad changed: {names}",
    "gradients": "gradients are left on {names} (end with model.zero_grad())",
    "hooks": "hooks are left on {names}",
    "edits": "edits are left in place on {names} (end with model.clear_edits())",
    "config": "the config changed: {names}",
}


def model_state(model: Any) -> ModelState | None:
    """The state of a model: an nnsight one, or a torch module; None for anything else."""
    import torch

    own: dict[str, Any] = getattr(model, "__dict__", {})
    if own.get("dispatched") is False:
        model.dispatch()  # lazy until the first trace: the weights to compare with must be there
    module = own.get("_module", model)  # dispatching replaced it
    if not isinstance(module, torch.nn.Module):
        return None
    # Persistent tensors only: a rotary embedding may rescale its own frequencies in a forward.
    tensors = module.state_dict(keep_vars=True)
    parameters = dict(module.named_parameters())
    modules = dict(module.named_modules())
    envoys = getattr(own.get("interleaver"), "envoys", None) or {}
    return ModelState(
        weights={name: _checksum(tensor) for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)},
        modules={name: id(part) for name, part in modules.items()},
        training={name or "model": part.training for name, part in modules.items()},
        requires_grad={name: parameter.requires_grad for name, parameter in parameters.items()},
        gradients={name: True for name, parameter in parameters.items() if parameter.grad is not None},
        hooks={name or "model": _hooks(part) for name, part in modules.items() if _hooks(part)},
        edits={e.path: len(e._edits) for e in [model, *envoys.values()] if getattr(e, "_edits", None)},
        config=_config(getattr(module, "config", None)),
    )


def differences(before: ModelState, after: ModelState) -> str | None:
    """What changed, in one sentence; None when nothing did."""
    said = []
    for kind in fields(ModelState):
        was, now = getattr(before, kind.name), getattr(after, kind.name)
        names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
        if names:
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            said.append(_SAID[kind.name].format(names=some))
    return "; ".join(said) or None


def _checksum(tensor: Any) -> object:
    """Depends on every bit, and on which row it stands in; one pass over the memory."""
    import torch

    plain = tensor.detach()
    if plain.is_meta or plain.numel() == 0:
        return tuple(plain.shape), str(plain.dtype)
    rows = plain.reshape(plain.shape[0] if plain.dim() > 1 else 1, -1).contiguous()
    size = rows.element_size()
    words = rows.shape[1] * size % 8 == 0  # eight bytes at a time where a row is made of them
    whole = torch.int64 if words else {1: torch.uint8, 2: torch.int16, 4: torch.int32}[size]
    sums = rows.view(whole).sum(dim=1, dtype=torch.int64)
    places = torch.arange(1, len(sums) + 1, device=sums.device) * 2_654_435_761
    return tuple(plain.shape), str(plain.dtype), int((sums * places).sum())


def _hooks(module: Any) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind, ())) for kind in kinds)


def _config(config: Any) -> dict[str, object]:
    if config is None or not hasattr(config, "to_dict"):
        return {}
    said: dict[str, object] = {
        key: json.dumps(value, default=str, sort_keys=True) for key, value in config.to_dict().items()
    }
    for key in ("_attn_implementation", "_experts_implementation"):
        said[key] = str(getattr(config, key, None))
    return said
