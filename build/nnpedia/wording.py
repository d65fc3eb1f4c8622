"""Wording: how numbers and config values are written on a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nnpedia.runs import runs


def shown(value: Any) -> str:
    """A config value as Python would print it, long lists cut to their ends."""
    if isinstance(value, list) and len(value) > 8:
        ends = ", ".join(shown(item) for item in value[:3])
        return f"[{ends}, … {shown(value[-1])}] ({len(value)} values)"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (str, bool, int, float)) or value is None:
        return str(value)
    return json.dumps(value)


def counted(number: int) -> str:
    """A parameter count in the usual units: `41.9 B`."""
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def epsilons(error: float | None) -> str:
    """An error in epsilons with two digits: 0, 0.5, 3.2, 41."""
    if error is None:
        return "–"
    return f"{error:.2g}" if 0 < error < 10 else f"{error:.0f}"


def in_words(error: float | None) -> str:
    """An error as the page says it: `exact`, `0.5 ε`; `broken` where there is nothing to measure."""
    if error is None:
        return "broken"
    return "exact" if error == 0 else f"{epsilons(error)} ε"


def blocks(layers: Sequence[int], total: int) -> str:
    """Some of a model's blocks: `layers 0–2, 5`, or how many of how many where that is a long list."""
    listed = spans(layers)
    if listed.count(",") > 2:
        return f"{len(layers)} of {total} layers"
    return f"{'layer' if len(layers) == 1 else 'layers'} {listed}"


def spans(layers: Sequence[int]) -> str:
    """Layer numbers as ranges: `0–4, 6–10`."""
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs(layers))
