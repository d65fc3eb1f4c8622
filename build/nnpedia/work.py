"""The build: which units of work there are, which are already done, and the doing of the rest.

A unit is one public checkpoint of a family at full size (`reference`), one checkpoint whose weights
run here (`run`), or one hand-written page's snippets (`page`). A unit whose record carries the key
of today's inputs is not done again. Planning imports neither torch nor transformers, so that a
build with nothing to do is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nnpedia import kernel, records
from nnpedia.cache import families_folder, home
from nnpedia.checkpoints import runnable_names
from nnpedia.errors import UnknownFamily, nearest
from nnpedia.family import Family, family_folders, load_family
from nnpedia.keys import key_of, page_keys
from nnpedia.pool import GIGABYTE, Job, Limits, default_limits, run_jobs
from nnpedia.record import Problem
from nnpedia.records import Unit

PRODUCE = "nnpedia.produce:produce"
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Outcome:
    """What became of a unit: `fresh` (its record stood), `built`, or `failed` with a cause."""

    unit: Unit
    status: Literal["fresh", "built", "failed"]
    problems: tuple[Problem, ...] = ()
    cause: str | None = None
    exit_code: int = 0
    trace: str = field(default="", repr=False)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status != "failed" and not self.problems


@dataclass(frozen=True)
class Event:
    """Something a build tells while it goes: the plan, a unit's start or end, a line for the user."""

    kind: Literal["plan", "start", "end", "note"]
    unit: Unit | None = None
    outcome: Outcome | None = None
    text: str = ""
    total: int = 0  # of a plan: how many units it adds to what is to be done


@dataclass(frozen=True)
class Bench:
    """Where a build works and how."""

    folder: Path
    home: Path
    workers: int
    force: bool
    limits: Limits
    tell: Callable[[Event], None]
    produce: str

    def note(self, text: str) -> None:
        self.tell(Event("note", text=text))


def build(
    families: Sequence[str] | None = None,
    *,
    folder: Path | None = None,
    cache_folder: Path | None = None,
    workers: int = 2,
    force: bool = False,
    hub: bool = False,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    produce: str | None = None,
) -> list[Outcome]:
    """Bring the records of the named families (default: all) up to date; one outcome per unit, in order.

    Records of families and checkpoints that are no longer there are deleted. With `hub`, public
    checkpoints whose weights fit the memory limit are run too. Raises `SpecError` for a spec that
    does not validate and `UnknownFamily` for a name without a folder; what fails inside a unit is
    that unit's outcome.
    """
    bench = Bench(
        folder or families_folder(), cache_folder or home(),
        workers, force, limits or default_limits(), on_event, produce or PRODUCE,
    )  # fmt: skip
    known = family_folders(bench.folder)
    chosen = {name: load_family(known[name]) for name in choose(families, known)}
    planned = {unit: key_of(unit, family) for family in chosen.values() for unit in units_of(family)}
    if not families:
        planned |= page_keys(bench.folder)
    public = {unit: key_of(unit, family) for family in chosen.values() for unit in hub_units(family)}
    for what in kernel.missing():
        bench.note(f"snippets: only Python, and not the system, refuses them {what}")
    with records.locked(bench.home, bench.note):
        standing = [unit for unit, key in public.items() if records.is_fresh(bench.home, unit, key)]
        spare = {*known, records.PAGES} - {*chosen} if families else ()
        for name in records.prune(bench.home, [*planned, *standing], spare):
            bench.note(f"records/{name} is deleted: what it told of is no longer there")
        outcomes = _bring_up_to_date(bench, planned)
        if hub:
            fitting = {unit: key for unit, key in public.items() if _fits(bench, unit, chosen[unit.family])}
            outcomes |= _bring_up_to_date(bench, fitting)
    return [outcomes[unit] for unit in sorted(outcomes)]


def choose(names: Sequence[str] | None, known: Mapping[str, Path]) -> list[str]:
    """The named families, or all; raises `UnknownFamily` for one that has no folder."""
    for name in names or ():
        if name not in known:
            hint = nearest(name, known) or f"; there is {', '.join(sorted(known)) or 'none'}"
            raise UnknownFamily(f"there is no family {name!r}{hint}")
    return list(dict.fromkeys(names)) if names else list(known)


def units_of(family: Family) -> list[Unit]:
    """A family's units: a reference per public checkpoint, a run per checkpoint that needs no Hub."""
    return [
        *(Unit(family.family, "reference", place, each.id) for place, each in enumerate(family.checkpoints)),
        *(Unit(family.family, "run", place, name) for place, name in enumerate(runnable_names(family))),
    ]


def hub_units(family: Family) -> list[Unit]:
    """A run per public checkpoint, after the runs that need no Hub."""
    first = len(runnable_names(family))
    names = runnable_names(family, hub=True)[first:]
    return [Unit(family.family, "run", place, name) for place, name in enumerate(names, first)]


def _fits(bench: Bench, unit: Unit, family: Family) -> bool:
    """Whether a public checkpoint's weights leave room for a forward within the memory limit; told of when not."""
    place, checkpoint = next((at, each) for at, each in enumerate(family.checkpoints) if each.id == unit.name)
    reference = Unit(family.family, "reference", place, checkpoint.id)
    size = records.parameters_of(bench.home, reference) * BYTES[checkpoint.dtype]
    if size > 0.8 * bench.limits.memory:
        limit = f"a limit of {bench.limits.memory / GIGABYTE:.1f} GB"
        bench.note(f"skipped {unit}: {size / GIGABYTE:.1f} GB of weights do not fit {limit}")
        return False
    return True


def _bring_up_to_date(bench: Bench, keys: Mapping[Unit, str]) -> dict[Unit, Outcome]:
    """Do the units whose records do not carry these keys."""
    outcomes: dict[Unit, Outcome] = {}
    for unit, key in keys.items():
        if not bench.force and records.is_fresh(bench.home, unit, key):
            outcomes[unit] = Outcome(unit, "fresh", tuple(records.problems_of(bench.home, unit)))
    missing = sorted((unit for unit in keys if unit not in outcomes), key=_longest_first)
    bench.tell(Event("plan", total=len(missing)))
    return outcomes | {outcome.unit: outcome for outcome in _produce(bench, missing, keys)}


def _longest_first(unit: Unit) -> tuple[bool, int, Unit]:
    """Runs before references, a family's first checkpoints (real weights) before its forged one."""
    return unit.kind != "run", unit.position, unit


def _produce(bench: Bench, missing: Sequence[Unit], keys: Mapping[Unit, str]) -> Iterator[Outcome]:
    """Do the units, in worker processes; each record is on disk before its outcome is told."""
    units = {str(number): unit for number, unit in enumerate(missing)}
    where = str(bench.folder), str(bench.home)
    jobs = [Job(name, bench.produce, (*where, unit.family, unit.kind, unit.name)) for name, unit in units.items()]
    results = run_jobs(
        jobs, bench.workers, bench.limits, started=lambda job: bench.tell(Event("start", unit=units[job.name]))
    )
    for result in results:
        unit = units[result.job.name]
        if result.cause is None:
            records.store(bench.home, unit, keys[unit], result.value)
            problems = tuple(records.problems_of(bench.home, unit))
            outcome = Outcome(unit, "built", problems, seconds=result.seconds)
        else:
            records.drop(bench.home, unit)
            outcome = Outcome(
                unit, "failed", cause=result.cause, exit_code=result.exit_code, trace=result.trace,
                seconds=result.seconds,
            )  # fmt: skip
        bench.tell(Event("end", unit=unit, outcome=outcome))
        yield outcome
