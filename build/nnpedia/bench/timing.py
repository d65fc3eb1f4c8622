"""Timing: tasks measured in turn, so that a machine that slows down slows down all of them.

This file imports the standard library only: the peers' environments run it too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def in_turn(
    tasks: Mapping[str, Callable[[], Any]], repeats: int, before: Callable[[], Any] = lambda: None
) -> dict[str, list[float]]:
    """Seconds of each task in each round, after two rounds that do not count; each round starts with another task.

    `before` is called before each, off the clock.
    """
    names = list(tasks)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-2, repeats):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            before()
            started = time.perf_counter()
            tasks[name]()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def against(base: Sequence[float], samples: Sequence[float]) -> dict[str, float]:
    """The median in seconds, its ratio to the base's, and the noise of the ratio.

    The noise is half the range in which the middle half of the rounds' own ratios lies.
    """
    ratios = sorted(one / other for one, other in zip(samples, base, strict=True))
    quarter = len(ratios) // 4
    return {
        "seconds": round(statistics.median(samples), 6),
        "ratio": round(statistics.median(samples) / statistics.median(base), 4),
        "noise": round((ratios[-1 - quarter] - ratios[quarter]) / 2, 4),
    }


def rows(seconds: Mapping[str, Sequence[float]], base: str = "bare") -> dict[str, dict[str, float]]:
    """`against` for every task, the base among them."""
    return {name: against(seconds[base], samples) for name, samples in seconds.items()}
