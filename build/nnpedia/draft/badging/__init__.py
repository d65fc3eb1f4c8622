"""Badges of a draft: which of the encyclopedia's badges a model has, each told by a detector of its own."""

from __future__ import annotations

from nnpedia.draft.badging import attention, feeding, norms, rotary, stream
from nnpedia.draft.badging.registry import DETECTORS
from nnpedia.draft.proving import Draft

SUBJECTS = (norms, attention, rotary, feeding, stream)


def badges_of(draft: Draft) -> list[str]:
    """The badges whose detector says yes, in the order they are registered in."""
    return [name for name, detects in DETECTORS.items() if detects(draft)]
