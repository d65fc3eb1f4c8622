"""Readings: what the probes of each load found of a value, and the condition they amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnpedia.record import Load


@dataclass(frozen=True)
class Reading:
    """What one probe found of one value."""

    run: str
    load: Load
    found: bool
    reason: str | None


def condition(readings: Sequence[Reading]) -> str:
    """What a load has to be for the value to be there, told per run where the runs differ."""
    runs: dict[str, list[Reading]] = {}
    for reading in readings:
        runs.setdefault(reading.run, []).append(reading)
    wanted: dict[str, list[str]] = {}
    for run, of_run in runs.items():
        if not all(reading.found for reading in of_run):
            wanted.setdefault(needs(of_run), []).append(run)
    everywhere = len(wanted) == 1 and sum(len(names) for names in wanted.values()) == len(runs)
    return "; ".join(what if everywhere else f"{what} on {', '.join(names)}" for what, names in wanted.items())


def needs(readings: Sequence[Reading]) -> str:
    """The options that tell one run's loads which give a value from those which do not, as one would write them."""
    if not any(reading.found for reading in readings):
        return "no load that was probed gives it"
    for key in sorted({key for reading in readings for key in reading.load.options}):
        good = [reading.load.options.get(key) for reading in readings if reading.found]
        bad = {reading.load.options.get(key) for reading in readings if not reading.found}
        if None not in good and not set(good) & bad:
            return f"needs {key}=" + " or ".join(f'"{choice}"' for choice in dict.fromkeys(good))
    labels = dict.fromkeys(reading.load.label for reading in readings if reading.found)
    return "only under " + ", ".join(labels)
