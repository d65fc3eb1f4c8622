"""What a build tells in a terminal: a line for each unit as it ends, then what is wrong, then the sum."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nnpedia.errors import place
from nnpedia.work import Event, Outcome, Planned


def complain(line: str) -> None:
    """A line on standard error, as it is: never wrapped, never styled."""
    print(line, file=sys.stderr, flush=True)


class Teller:
    """Takes a build's events. In a terminal a bar names what is running; elsewhere each end is a line."""

    def __init__(self, console: Console, progress: Progress | None) -> None:
        self._console, self._progress = console, progress
        self._running: list[str] = []
        self._task = progress.add_task("", total=0, visible=False) if progress is not None else None
        self._total = 0

    def __call__(self, event: Event) -> None:
        if event.kind == "note":
            self._say(event.text)
        elif event.kind == "start":
            self._running.append(str(event.unit))
        elif event.kind == "end" and event.outcome is not None:
            self._running.remove(str(event.unit))
            self._say(_line(event.outcome))
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=", ".join(self._running))
            if event.kind == "plan":
                self._total += event.total
                self._progress.update(self._task, total=self._total, visible=self._total > 0)
            elif event.kind == "end":
                self._progress.advance(self._task)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def telling() -> Iterator[Teller]:
    """A `Teller` on standard error, so that standard output is left for results."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Teller(console, None)
        return
    columns = (SpinnerColumn(), MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn(),
               TextColumn("{task.description}"))  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        yield Teller(console, progress)


def _line(outcome: Outcome) -> str:
    state = "failed" if outcome.status == "failed" else "wrong" if outcome.problems else "ok"
    return f"{state:6}  {outcome.unit}  ({outcome.seconds:.1f} s)"


def complain_of(outcomes: Sequence[Outcome], root: Path, debug: bool = False) -> None:
    """One line for each thing wrong, on standard error, however many units say it.

    `root` is the folder that records' places are told from.
    """
    told = dict.fromkeys(f"{_from_here(each.where, root)}: {each.what}" for one in outcomes for each in one.problems)
    for line in told:
        complain(line)
    failed: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.cause is not None:
            failed.setdefault((outcome.unit.family, outcome.cause), []).append(outcome)
    for (_, cause), alike in failed.items():
        others = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        complain(f"{alike[0].unit}{others}: {_from_here(cause, root)}")
        if debug and alike[0].trace:
            complain(alike[0].trace.rstrip())


def _from_here(text: str, root: Path) -> str:
    """A text that starts with a place below `root`, with that place as seen from the current folder."""
    head, colon, rest = text.partition(":")
    path = root / head
    return place(path) + colon + rest if colon and "/" in head and path.is_file() else text


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """`9 records: 4 made, 5 unchanged (12.3 s)`, and how many failed or say something wrong."""
    made = sum(outcome.status == "built" for outcome in outcomes)
    fresh = sum(outcome.status == "fresh" for outcome in outcomes)
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    problems = sum(len(outcome.problems) for outcome in outcomes)
    parts = [f"{made} made", f"{fresh} unchanged"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{problems} thing{'s' if problems > 1 else ''} wrong"] if problems else []
    return f"{made + fresh} record{'s' if made + fresh != 1 else ''}: {', '.join(parts)} ({seconds:.1f} s)"


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 when all is well, 1 when something documented is wrong, 2 when all that is wrong is bad input."""
    codes = {1 if outcome.problems else outcome.exit_code for outcome in outcomes if not outcome.ok}
    return 1 if 1 in codes else max(codes, default=0)


def as_data(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The outcomes for `--json`."""
    return [
        {
            "family": outcome.unit.family,
            "kind": outcome.unit.kind,
            "name": outcome.unit.name,
            "status": outcome.status,
            "problems": [problem.model_dump() for problem in outcome.problems],
            "cause": outcome.cause,
            "seconds": round(outcome.seconds, 2),
            "peak_memory": outcome.peak,
            "peak_resident": outcome.resident,
        }
        for outcome in outcomes
    ]


def plan_as_data(planned: Planned) -> dict[str, Any]:
    """A unit of a plan for `--json`; memory in bytes."""
    unit, needs = planned.unit, planned.needs
    said = {"family": unit.family, "kind": unit.kind, "name": unit.name, "fresh": planned.fresh}
    return said | {"memory": needs.memory, "accelerators": needs.accelerators}


def print_json(data: object) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))
