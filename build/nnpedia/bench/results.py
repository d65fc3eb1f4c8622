"""Results: the bench's numbers as the Speed page shows them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnpedia.errors import NnpediaError

Run = dict[str, Any]  # a cold build, as `nnpedia.bench.building` measures it
BASE = "bare"  # what all else is measured against
#: In their order; other tasks go by their names.
TITLES = {
    "residuals": "all residuals", "residuals_one_by_one": "all residuals, block by block",
    "patterns": "all patterns", "patterns_one_by_one": "all patterns, block by block",
}  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 330, 56, 46, 24, 40
APART = 26  # the least between two numbers of an axis


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


def title(task: str) -> str:
    return TITLES.get(task, task.replace("_", " "))


def library_rows(found: dict[str, Any]) -> list[Row]:
    """Every ratio to a bare forward, by tokens and what is read, ours first."""
    measured = {"nnpedia": found.get("library", {})} | {
        who: said for who, said in found.get("peers", {}).items() if isinstance(said, dict) and "lengths" in said
    }
    lengths = [table for said in measured.values() for table in said.get("lengths", {}).values()]
    names = dict.fromkeys([*TITLES, *(name for table in lengths for name in table if name != BASE)])
    return [
        Row(
            who,
            title(what),
            int(length),
            row["ratio"],
            row["noise"],
            1000 * row["seconds"],
        )
        for length in sorted({length for said in measured.values() for length in said.get("lengths", {})}, key=int)
        for what in names
        for who, said in measured.items()
        if (row := said.get("lengths", {}).get(length, {}).get(what)) is not None
    ]


@dataclass(frozen=True)
class Fit:
    """The straight line through cold builds that is least off: seconds to begin with, and for each record."""

    start: float
    each: float

    def off(self, run: Run) -> float:
        """The seconds that a build takes over what the line says; negative for one that takes less."""
        return float(run["seconds"]) - self.start - self.each * int(run["units"])


def fitted(runs: Sequence[tuple[int, float]]) -> Fit | None:
    """Least squares over records and seconds; None for fewer than three numbers of records, always on a line."""
    if len({units for units, _ in runs}) < 3:
        return None
    line = statistics.linear_regression([units for units, _ in runs], [seconds for _, seconds in runs])
    return Fit(round(line.intercept, 6) + 0.0, line.slope)  # not -0.0


@dataclass(frozen=True)
class Line:
    """The cold builds of one number of workers: as numbers, as points of the plot, and the ends of the line through."""

    workers: int
    runs: list[Run]
    points: list[tuple[float, float]]
    fit: Fit | None
    ends: list[tuple[float, float]]

    def off(self, run: Run) -> float:
        """The seconds that a build takes over what the line says; none where there is no line."""
        return self.fit.off(run) if self.fit else 0.0

    def share(self, run: Run) -> float:
        """The same as a part of what it takes."""
        return self.off(run) / float(run["seconds"])

    @property
    def farthest(self) -> Run:
        """The build that is off the line by most seconds."""
        return max(self.runs, key=lambda run: abs(self.off(run)))

    @property
    def least_fitting(self) -> Run:
        """The build that is off the line by most of its own time."""
        return max(self.runs, key=lambda run: abs(self.share(run)))


@dataclass(frozen=True)
class Plot:
    """Seconds of a cold build over the records it makes; ticks are a place and a number."""

    lines: list[Line]
    across: list[tuple[float, int]]
    families: list[tuple[float, int]]  # how many families the records are of
    up: list[tuple[float, int]]


def plot(runs: Sequence[Run]) -> Plot | None:
    """None where no build tells how many records it made."""
    runs = [run for run in runs if run.get("units")]
    if not runs:
        return None
    most = max(run["units"] for run in runs)
    longest = max(run["seconds"] for run in runs)
    step, wide = _step(longest), _step(most)
    top = step * (int(longest // step) + 1)

    def x(units: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * units / most

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds / top

    lines = []
    for workers in sorted({run["workers"] for run in runs}):
        own = sorted((run for run in runs if run["workers"] == workers), key=lambda run: run["units"])
        fit = fitted([(run["units"], run["seconds"]) for run in own])
        points = [(x(run["units"]), y(run["seconds"])) for run in own]
        lines.append(Line(workers, own, points, fit, [(x(at), y(says)) for at, says in _ends(fit, own)]))
    return Plot(
        lines,
        across=[(x(value), value) for value in range(0, most + 1, wide)],
        families=_apart([(x(run["units"]), run["families"]) for run in runs]),
        up=[(y(value), value) for value in range(0, top + 1, step)],
    )


def _step(largest: float) -> int:
    """What an axis is numbered by, so that it has six numbers at most."""
    return next((each for each in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if largest / each <= 6), 2000)


def _ends(fit: Fit | None, own: Sequence[Run]) -> list[tuple[float, float]]:
    """Records and seconds at both ends of a line: from where neither is below zero to the largest build."""
    if fit is None:
        return []
    first, last = max(0.0, -fit.start / fit.each) if fit.each > 0 else 0.0, own[-1]["units"]
    return [(first, fit.start + fit.each * first), (last, fit.start + fit.each * last)]


def _apart(ticks: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The numbers that have room, the largest first."""
    kept: list[tuple[float, int]] = []
    for place, number in sorted(set(ticks), reverse=True):
        if not kept or kept[-1][0] - place >= APART:
            kept.append((place, number))
    return kept[::-1]
