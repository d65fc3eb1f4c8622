"""Results: the bench's numbers as the Speed page shows them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnpedia.errors import NnpediaError

TITLES = {"residuals": "all residuals", "patterns": "all patterns"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 56, 16, 24, 40


def path_of(home: Path) -> Path:
    return home / "bench" / "bench.json"


def load(home: Path) -> dict[str, Any] | None:
    """The bench's numbers; None where it has not run. Raises `NnpediaError` for a file that is not its own."""
    path = path_of(home)
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NnpediaError(f"this is not what the bench writes ({error}); run `make bench`", where=str(path)) from None
    return dict(found)


@dataclass(frozen=True)
class Row:
    """One measurement of the library or a peer."""

    who: str
    what: str
    tokens: int
    ratio: float
    noise: float
    milliseconds: float


def library_rows(found: dict[str, Any]) -> list[Row]:
    """Every ratio to a bare forward, by tokens and what is read, ours first."""
    measured = {"nnpedia": found.get("library", {})} | {
        who: said for who, said in found.get("peers", {}).items() if isinstance(said, dict) and "lengths" in said
    }
    return [
        Row(who, TITLES[what], int(length), row["ratio"], row["noise"], 1000 * row["seconds"])
        for length in sorted({length for said in measured.values() for length in said.get("lengths", {})}, key=int)
        for what in TITLES
        for who, said in measured.items()
        if (row := said.get("lengths", {}).get(length, {}).get(what)) is not None
    ]


@dataclass(frozen=True)
class Fit:
    """The straight line through cold builds that is least off: seconds to begin with, and for each family."""

    start: float
    each: float
    off: float  # the farthest a build is from it, as a part of what that build took


def fitted(runs: Sequence[tuple[int, float]]) -> Fit | None:
    """Least squares; None for builds of fewer than three numbers of families, which always lie on a line."""
    if len({families for families, _ in runs}) < 3:
        return None
    line = statistics.linear_regression([families for families, _ in runs], [seconds for _, seconds in runs])
    off = max(abs(line.intercept + line.slope * families - seconds) / seconds for families, seconds in runs)
    return Fit(round(line.intercept, 6) + 0.0, line.slope, off)  # not -0.0


@dataclass(frozen=True)
class Line:
    """The cold builds of one number of workers: as numbers, and as points of the plot."""

    workers: int
    runs: list[dict[str, Any]]
    points: list[tuple[float, float]]

    @property
    def fit(self) -> Fit | None:
        return fitted([(run["families"], run["seconds"]) for run in self.runs])

    @property
    def path(self) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class Plot:
    """Seconds of a cold build over its number of families."""

    lines: list[Line]
    across: list[tuple[float, int]]  # ticks: the place, the number
    up: list[tuple[float, int]]


def plot(runs: list[dict[str, Any]]) -> Plot | None:
    if not runs:
        return None
    most = max(run["families"] for run in runs)
    longest = max(run["seconds"] for run in runs)
    step = next((each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if longest / each <= 6), 2000)
    top = step * (int(longest // step) + 1)

    def x(families: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * families / most

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / top

    lines = []
    for workers in sorted({run["workers"] for run in runs}):
        own = sorted((run for run in runs if run["workers"] == workers), key=lambda run: run["families"])
        lines.append(Line(workers, own, [(x(run["families"]), y(run["seconds"])) for run in own]))
    counts = sorted({run["families"] for run in runs})
    far = [count for count in counts if count >= 4 or count == 1]
    return Plot(lines, [(x(count), count) for count in far], [(y(value), value) for value in range(0, top + 1, step)])
