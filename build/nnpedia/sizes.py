"""Sizes: how long the axes are, by a family's formulas over a module and the config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nnpedia import formula
from nnpedia.errors import NnpediaError
from nnpedia.family import Family
from nnpedia.holding import host_of

if TYPE_CHECKING:
    from nnpedia.model import StandardizedTransformer

#: Which axes a block may have a length of its own of: those of a part, by host, and those named.
OWN_SIZES = {"linear_attn": ("recurrent", ()), "self_attn": ("attention", ()), "mlp": ("mlp", ("intermediate_size",))}


def axis_sizes(family: Family, module: torch.nn.Module | None, config: Any) -> dict[str, int]:
    """Every axis length that the module or the config gives, by the family's size formulas."""
    sizes = {axis: size(texts, module, config) for axis, texts in family.sizes.items()}
    return {axis: length for axis, length in sizes.items() if length is not None}


class SeveralLengths(LookupError):
    """A setting of the config that is not one number: blocks have their own."""


def block_sizes(model: StandardizedTransformer, layer: int) -> dict[str, int]:
    """The axis lengths of one block that its own modules give."""
    family, found = model.family, dict[str, int]()
    for host, (part, named) in OWN_SIZES.items():
        at = host_of(model.layers[layer], host)
        if at is not None:
            axes = family.vocabulary.axes.items()  # in its order: a record's bytes are to be the same in every run
            said = {axis: family.sizes.get(axis, []) for axis, spec in axes if spec.part == part or axis in named}
            known = {
                axis: size(texts, at.module, model.text_config)
                for axis, texts in said.items()
                if any("module." in text for text in texts)
            }
            found |= {axis: length for axis, length in known.items() if length is not None}
    return found


def evaluate(text: str, module: torch.nn.Module | None, config: Any) -> Any:
    """A formula over `module` and `config`; raises `LookupError` for what neither has."""
    roots = {"module": module, "config": config}

    def lookup(name: str) -> Any:
        value: Any = roots
        for part in name.split("."):
            try:
                value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
            except RuntimeError as error:  # a config refuses to give one number for what is set by block
                raise SeveralLengths(f"{name}: {error}") from None
            if value is None:
                raise LookupError(name)
        return value

    return formula.evaluate(formula.parse(text).left, lookup)


def size(texts: list[str], module: torch.nn.Module | None, config: Any) -> int | None:
    """The first formula that gives an integer; `None` when none does, or when blocks have lengths of their own."""
    for text in texts:
        try:
            answer = evaluate(text, module, config)
        except SeveralLengths:
            return None  # a later formula would give a length that no block, or not every block, has
        except (LookupError, TypeError, NnpediaError):
            continue
        if isinstance(answer, int) and not isinstance(answer, bool):
            return answer
    return None
