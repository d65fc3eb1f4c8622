"""Badges: a detector for each, over what was seen of a model and the laws that hold on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import nn

from nnpedia.draft.proving import Draft
from nnpedia.draft.sighting import Kind
from nnpedia.draft.tree import is_linear

Detector = Callable[[Draft], bool]
DETECTORS: dict[str, Detector] = {}


def badge(name: str) -> Callable[[Detector], Detector]:
    """Register the detector of a badge."""

    def register(function: Detector) -> Detector:
        DETECTORS[name] = function
        return function

    return register


def kinds_of(draft: Draft) -> list[Kind]:
    return draft.seen.kinds


def attentions_of(draft: Draft) -> Iterator[tuple[Kind, str]]:
    for kind in kinds_of(draft):
        part = kind.block.of("attention")
        if part is not None and kind.attention is not None:
            yield kind, part.host


def module_at(draft: Draft, path: str) -> nn.Module:
    found: nn.Module = draft.seen.trial.model.get_submodule(path)
    return found


def projections_of(draft: Draft, kind: Kind, host: str) -> list[tuple[str, nn.Module]]:
    """The linear maps an attention calls before its output projection."""
    out = kind.attention.projection if kind.attention else None
    inside = module_at(draft, host).named_modules()
    return [(name, one) for name, one in inside if is_linear(one) and f"{host}.{name}" != out]


def form_of(draft: Draft, host: str, law: str) -> str:
    form = draft.laws.get((host, law))
    return "" if form is None else form.formula
