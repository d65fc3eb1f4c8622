"""Bases: the family to extend is the one beside which the least is left to write.

What a draft says of laws is known only once it is proven, so a first base is proven, the others are told by the spec
that would be written beside them, and the nearest of those are proven as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nnpedia.draft.proving import Draft, prove
from nnpedia.draft.spec import cost, prefer_base
from nnpedia.draft.writing import as_yaml, spec_of
from nnpedia.family import Family

#: Bases that are proven beside the first.
MOST = 2
#: A law of another base may hold here and need no line, which only proving tells: how many lines are allowed for that.
SLACK = 8


def nearest(draft: Draft, folder: Path) -> Draft:
    """A proven draft with the base that leaves the fewest lines to write and proves as much."""
    best, own = draft, length(draft)
    others = [one for one in draft.pool if one is not draft.base and cost(draft.seen, draft.said, one) < float("inf")]
    waiting = sorted((length(beside), index, beside) for index, beside in _beside(draft, others))
    for told, _, beside in waiting[:MOST]:
        if told[0] > own[0] + SLACK:
            break
        prove(beside, folder)
        if _proves_as_much(beside, draft) and length(beside) < length(best):
            best = beside
    return best


def length(draft: Draft) -> tuple[int, int, int]:
    """Lines and characters of the spec that a draft writes, and how many families stand under its base.

    The prose is not in yet, and how long the name of the base is does not count.
    """
    text = as_yaml({key: value for key, value in spec_of(draft).items() if key != "extends"})
    return text.count("\n") + int(draft.base is not None), len(text), len(draft.base.bases) if draft.base else 0


def _beside(draft: Draft, bases: Sequence[Family]) -> list[tuple[int, Draft]]:
    """The draft beside each of these, with places of its own to choose and try."""
    found = []
    for index, base in enumerate(bases):
        said = {
            pair: replace(one, choices=list(one.choices), others=list(one.others), by_class=dict(one.by_class))
            for pair, one in draft.said.items()
        }
        prefer_base(said, base)
        found.append((index, replace(draft, base=base, said=said, laws=dict(draft.laws), orders=dict(draft.orders))))
    return found


def _proves_as_much(draft: Draft, other: Draft) -> bool:
    return (
        len(draft.todo) <= len(other.todo)
        and len(draft.problems) <= len(other.problems)
        and sum(form is None for form in draft.laws.values()) <= sum(form is None for form in other.laws.values())
        and (draft.readout is not None or other.readout is None)
    )
