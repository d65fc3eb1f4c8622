"""One value of many blocks, read at once and block by block."""

from __future__ import annotations

from typing import Any

import torch
from forged import PROMPT

RESIDUALS, PATTERNS = "layers.layer_output", "self_attn.attention_probabilities"


def at_once(model: Any, name: str, **options: Any) -> dict[int, torch.Tensor]:
    with model.trace(PROMPT):
        found = model.every(name, **options).save()
    return dict(found)


def one_by_one(model: Any, name: str) -> dict[int, torch.Tensor]:
    host, value = name.split(".")
    found = {}
    with model.trace(PROMPT):
        for layer, block in enumerate(model.layers):
            found[layer] = getattr(block if host == "layers" else getattr(block, host), value).save()
    return found


def same(one: dict[int, torch.Tensor], other: dict[int, torch.Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[layer], other[layer]) for layer in one)
