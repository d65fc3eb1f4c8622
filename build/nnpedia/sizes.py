"""Sizes: how long the axes are, by a family's formulas over a module and the config."""

from __future__ import annotations

from typing import Any

import torch

from nnpedia import formula
from nnpedia.errors import NnpediaError
from nnpedia.family import Family


def axis_sizes(family: Family, module: torch.nn.Module | None, config: Any) -> dict[str, int]:
    """Every axis length that the module or the config gives, by the family's size formulas."""
    sizes = {axis: size(texts, module, config) for axis, texts in family.sizes.items()}
    return {axis: length for axis, length in sizes.items() if length is not None}


def evaluate(text: str, module: torch.nn.Module | None, config: Any) -> Any:
    """A formula over `module` and `config`; raises `LookupError` for what neither has."""
    roots = {"module": module, "config": config}

    def lookup(name: str) -> Any:
        value: Any = roots
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
            if value is None:
                raise LookupError(name)
        return value

    return formula.evaluate(formula.parse(text).left, lookup)


def size(texts: list[str], module: torch.nn.Module | None, config: Any) -> int | None:
    """The first formula that gives an integer; `None` when none does."""
    for text in texts:
        try:
            answer = evaluate(text, module, config)
        except (LookupError, TypeError, NnpediaError):
            continue
        if isinstance(answer, int) and not isinstance(answer, bool):
            return answer
    return None
