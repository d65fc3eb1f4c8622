"""Coverage: every causal language model of transformers, complete, drafted, or why not; a table and its page.

The table is measured by `nnpedia draft --measure`, each model in a process of its own, and kept beside the
vocabulary; the page shows what it holds and which versions it was measured with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nnpedia.cache import PACKAGE, write_atomically
from nnpedia.errors import SpecError, place
from nnpedia.family import family_folders
from nnpedia.pool import GIGABYTE, Job, Limits, run_jobs
from nnpedia.versions import installed

TABLE = "coverage.json"
LIMITS = Limits(seconds=240.0, memory=4 * GIGABYTE)
STATES = ("complete", "drafted", "not yet", "left out")


@dataclass
class Table:
    """What was measured.

    Attributes:
        versions: Of what it was measured with.
        scores: By hand-written family, its draft beside it.
        covers: By model type, what became of its draft.
    """

    versions: dict[str, str] = field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    covers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def share(self, what: str) -> tuple[int, int]:
        """How many names, values or badges of the hand-written families are right, and of how many."""
        pairs = [score[what] for score in self.scores.values()]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    def of_state(self, state: str) -> list[str]:
        return sorted(name for name, cover in self.covers.items() if cover["state"] == state)


def collect(families: Path, home: Path, workers: int) -> Table:
    """Measure every family and every other model type, each in a process of its own.

    What was measured with today's code, specs and versions is kept in `home` and not measured again, so that a
    measurement that was ended goes on where it was.
    """
    from nnpedia.draft.measure import model_types

    jobs = [Job(f"score {name}", "nnpedia.draft.measure:score", (name, families)) for name in family_folders(families)]
    jobs += [Job(f"cover {name}", "nnpedia.draft.measure:cover", (name, families)) for name in model_types(families)]
    table = Table({name: installed(name) for name in ("transformers", "torch", "nnsight")})
    key = _key(families, table.versions)
    waiting = []
    for job in jobs:
        kept = _kept(_record(home, job), key)
        if kept is None:
            waiting.append(job)
        else:
            _place(table, job, kept)
    for result in run_jobs(waiting, workers, LIMITS):
        data = _failed(result.job, result.cause) if result.cause is not None else result.value.as_data()
        _place(table, result.job, data)
        text = json.dumps({"key": key, "data": data}, indent=1, sort_keys=True)
        write_atomically(_record(home, result.job), text + "\n")
    return table


def _place(table: Table, job: Job, data: dict[str, Any]) -> None:
    kind, _, name = job.name.partition(" ")
    (table.scores if kind == "score" else table.covers)[name] = data


def _record(home: Path, job: Job) -> Path:
    return home / "coverage" / f"{job.name.replace(' ', '-')}.json"


def _kept(path: Path, key: str) -> dict[str, Any] | None:
    """What was measured, when it was with the same key."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return dict(held["data"]) if held["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _key(families: Path, versions: dict[str, str]) -> str:
    """A digest of the package's code, the specs and the versions."""
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode())
    for path in [*sorted(PACKAGE.rglob("*.py")), *sorted(families.rglob("*.yml"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _failed(job: Job, cause: str) -> dict[str, Any]:
    from nnpedia.draft.measure import Cover, Score

    kind, _, name = job.name.partition(" ")
    if kind == "score":
        return Score(name, cause=cause).as_data()
    return Cover(name, "not yet", cause).as_data()


def write_table(table: Table, path: Path) -> None:
    """The table as JSON with sorted keys, so that the same measurement is the same bytes."""
    data = {**asdict(table), "scores": dict(sorted(table.scores.items())), "covers": dict(sorted(table.covers.items()))}
    write_atomically(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_table(folder: Path) -> Table | None:
    """The table of a families folder; `None` where none was measured. Raises `SpecError` for one that does not read."""
    path = folder / TABLE
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Table(data["versions"], data["scores"], data["covers"])
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"the coverage table does not read ({error}): measure it anew with `nnpedia draft --measure`",
            where=place(path),
        ) from None


def summary(table: Table) -> str:
    """One line on what a table holds."""
    counts = ", ".join(f"{len(table.of_state(state))} {state}" for state in STATES)
    shares = ", ".join(
        f"{what} {right}/{total}" for what in ("names", "values", "badges") for right, total in [table.share(what)]
    )
    wrong = sum(len(score["wrong"]) for score in table.scores.values())
    return f"{len(table.scores)} families: {shares}, {wrong} wrong; {len(table.covers)} other model types: {counts}"


def unmeasured(table: Table, described: Sequence[str]) -> list[str]:
    """The families that the table has as another model type: they were written since."""
    return sorted(name for name in described if name in table.covers)
