"""Collecting: the rows of the coverage table measured, each model in a process of its own.

A row that was measured with what is there now stays; any other is measured again and written at once, so that a
measurement that was ended goes on where it was.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnpedia.draft.coverage import TABLE, Row, Table, inputs_of, read_table, since, write_table
from nnpedia.errors import SpecError, nearest
from nnpedia.family import family_folders
from nnpedia.pool import GIGABYTE, Job, Limits, run_jobs

LIMITS = Limits(seconds=240.0, memory=4 * GIGABYTE)


def collect(families: Path, out: Path, workers: int, names: Sequence[str] = (), again: bool = False) -> Table:
    """Measure the rows named, or all, into the table in `out`; `again`, those that are up to date as well.

    The table in `out` is begun from that of `families`. Raises `SpecError` for a name that is no model type.
    """
    inputs, described = inputs_of(families), set(family_folders(families))
    table = read_table(out) or read_table(families) or Table()
    wanted = _wanted(families, names)
    if not names:
        _drop(table, set(wanted))
        write_table(table, out / TABLE)
    waiting = [
        name for name in wanted
        if again or name not in (table.scores if name in described else table.covers)
        or since(name, table.scores.get(name) or table.covers[name], inputs)
    ]  # fmt: skip
    for name, row in measured(families, waiting, workers):
        table = read_table(out) or table  # another slice may have written rows since
        table.place(name, row, described)
        write_table(table, out / TABLE)
    return read_table(out) or table


def measured(families: Path, names: Sequence[str], workers: int) -> Iterator[tuple[str, Row]]:
    """Each row measured now, with what it was measured with, as it comes."""
    inputs, described = inputs_of(families), set(family_folders(families))
    jobs = [Job(name, _function(name in described), (name, families)) for name in names]
    for result in run_jobs(jobs, workers, LIMITS):
        name = result.job.name
        row = result.value.as_data() if result.cause is None else _failed(name, result.cause, name in described)
        yield name, {**row, "measured": {**inputs.of(name, row), "day": datetime.date.today().isoformat()}}


def differing(families: Path, names: Sequence[str], workers: int) -> list[str]:
    """A line for each row that comes out otherwise than the table of `families` has it; nothing is written.

    Which family is the nearest changes as families are written, and says nothing of what was understood.
    """
    table, described = read_table(families) or Table(), set(family_folders(families))
    lines = []
    for name, row in measured(families, _wanted(families, names), workers):
        held = (table.scores if name in described else table.covers).get(name)
        if held is None:
            lines.append(f"{name} is not in the table")
            continue
        fields = [
            field
            for field in row
            if field not in ("measured", "extends", "read") and _plain(row[field]) != _plain(held.get(field))
        ]
        lines += [f"{name}: {field} was {held.get(field)!r} and is {row[field]!r}" for field in fields]
    return sorted(lines)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _function(described: bool) -> str:
    return f"nnpedia.draft.measure:{'score' if described else 'cover'}"


def _wanted(families: Path, names: Sequence[str]) -> list[str]:
    from nnpedia.draft.measure import model_types

    every = [*family_folders(families), *model_types(families)]
    for name in names:
        if name not in every:
            raise SpecError(f"{name!r} is neither a family nor a causal language model's type{nearest(name, every)}")
    return list(names) or every


def _drop(table: Table, there: set[str]) -> None:
    """Take out the rows of what is no model type or family any more."""
    for rows in (table.scores, table.covers):
        for name in set(rows) - there:
            del rows[name]


def _failed(name: str, cause: str, described: bool) -> Row:
    from nnpedia.draft.measure import Cover, Score

    return Score(name, cause=cause).as_data() if described else Cover(name, "not yet", cause).as_data()
