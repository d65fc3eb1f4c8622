"""Runs: numbers that follow one another, so that a list of blocks is told by its ends."""

from __future__ import annotations

from collections.abc import Sequence


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """Ascending numbers, cut where one is left out: `[0, 1, 2, 5]` is `[[0, 1, 2], [5]]`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return found
