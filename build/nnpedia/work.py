"""The build: which units of work there are, which are already done, and the doing of the rest.

A unit is one public checkpoint of a family at full size (`reference`), one checkpoint whose weights
run here (`run`), or one hand-written page's snippets (`page`). A unit whose record carries the key
of today's inputs is not done again. Planning imports neither torch nor transformers, so that a
build with nothing to do is quick.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nnpedia import kernel, records
from nnpedia.beside import check_beside
from nnpedia.cache import families_folder, home
from nnpedia.checkpoints import runnable_names
from nnpedia.documents import Read, documents, name_of
from nnpedia.family import Family, choose, family_folders, load_family, present, read_anew
from nnpedia.keys import keys_of, page_keys
from nnpedia.needs import Needs, needs_of
from nnpedia.placing import wrong
from nnpedia.pool import GIGABYTE, Job, Limits, Result, default_limits, run_jobs
from nnpedia.record import Problem
from nnpedia.records import Unit

if TYPE_CHECKING:
    from nnpedia.cluster import Cluster

PRODUCE = "nnpedia.produce:produce"


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
    peak: int = 0  # bytes that its process held at most; 0 where nobody looked
    resident: int = 0  # the same with mapped files and what it shares

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
    read: Read
    device: str = "cpu"
    cluster: Cluster | None = None

    @property
    def room(self) -> int:
        """Bytes of memory that one unit may take."""
        return self.limits.memory if self.cluster is None else self.cluster.memory

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
    device: str = "cpu",
    scheduler: str | None = None,
) -> list[Outcome]:
    """Bring the records of the named families (default: all) up to date; one outcome per unit, in order.

    Records of families and checkpoints that are no longer there are deleted. With `hub`, public
    checkpoints whose weights fit the memory limit are run too. With `scheduler`, the address of a
    Dask scheduler, its workers do the units. `device` is where weights run: `cpu`, `cuda` or `auto`.
    Raises `SpecError` for a spec that does not validate, `UnknownFamily` for a name without a folder,
    and `NnpediaError` for a scheduler or a device that is not there; what fails inside a unit is that
    unit's outcome.
    """
    read_anew()
    with contextlib.ExitStack() as stack:
        cluster = None if scheduler is None else stack.enter_context(_open_cluster(scheduler))
        folder, cache_folder = folder or families_folder(), cache_folder or home()
        bench = Bench(
            folder, cache_folder, workers, force, limits or default_limits(), on_event, produce or PRODUCE,
            stack.enter_context(documents(folder.parent, cache_folder, some=bool(families))), _device(device, cluster),
            cluster,
        )  # fmt: skip
        return _build(bench, families, hub)


def _open_cluster(scheduler: str) -> Cluster:
    from nnpedia.cluster import Cluster

    return Cluster(scheduler)


def _device(asked: str, cluster: Cluster | None) -> str:
    """The device that units run on; the workers' when they are what runs them."""
    if asked == "cpu":
        return asked
    if cluster is not None:
        return "cuda" if asked == "cuda" or cluster.accelerators else "cpu"
    from nnpedia.device import usable

    return str(usable(asked))


def _build(bench: Bench, families: Sequence[str] | None, hub: bool) -> list[Outcome]:
    known = family_folders(bench.folder)
    chosen = _chosen(families, known, bench.note)
    planned = keys_of(chosen, units_of, bench.read, bench.device)
    if not families:
        planned |= page_keys(bench.folder, bench.read)
    public = keys_of(chosen, hub_units, bench.read, bench.device)
    for what in kernel.missing():
        bench.note(f"snippets: only Python, and not the system, refuses them {what}")
    with records.locked(bench.home, bench.note):
        standing = [unit for unit, key in public.items() if records.is_fresh(bench.home, unit, key)]
        spare = {*known, records.PAGES} - {*chosen} if families else ()
        for name in records.prune(bench.home, [*planned, *standing], spare):
            bench.note(f"records/{name} is deleted: what it told of is no longer there")
        outcomes = _bring_up_to_date(bench, planned, chosen)
        if hub:
            fitting = {unit: key for unit, key in public.items() if _fits(bench, unit, chosen[unit.family])}
            outcomes |= _bring_up_to_date(bench, fitting, chosen)
    return [outcomes[unit] for unit in sorted(outcomes)]


@dataclass(frozen=True)
class Planned:
    """A unit that a build would look at: what it needs, and whether its record stands."""

    unit: Unit
    needs: Needs
    fresh: bool


def plan(families: Sequence[str] | None = None, device: str = "cpu", hub: bool = False) -> list[Planned]:
    """The units of a build, with nothing done; raises as `build` does."""
    folder, cache_folder, device = families_folder(), home(), _device(device, None)
    known = family_folders(folder)
    chosen = _chosen(families, known)
    with documents(folder.parent, cache_folder, some=bool(families)) as read:
        keys = keys_of(chosen, units_of, read, device) | (keys_of(chosen, hub_units, read, device) if hub else {})
        keys |= {} if families else page_keys(folder, read)
    return [
        Planned(
            unit,
            needs_of(unit, chosen.get(unit.family), cache_folder, device),
            records.is_fresh(cache_folder, unit, keys[unit]),
        )
        for unit in sorted(keys)
    ]


def _chosen(
    names: Sequence[str] | None, known: Mapping[str, Path], note: Callable[[str], None] = lambda line: None
) -> dict[str, Family]:
    """The named families, or all that the installed transformers has.

    Raises `UnknownFamily` for a name it has not, and `SpecError` for what `check_beside` refuses.
    """
    found = {name: load_family(known[name]) for name in choose(names, known)}
    check_beside(list(found.values()))
    if names:
        return {name: present(family) for name, family in found.items()}
    for name, family in found.items():
        if family.too_new:
            note(f"{name} is left out: it {family.too_new}")
    return {name: family for name, family in found.items() if not family.too_new}


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


def _told_of(bench: Bench, unit: Unit, families: Mapping[str, Family]) -> tuple[Problem, ...]:
    """What is wrong with what the unit's record tells of: the model as the spec has it, its notes or its page."""
    problems, facts = records.told_of(bench.home, unit)
    if unit.kind == "page":
        problems += wrong(bench.read(unit.name), facts)
    elif unit.kind == "run":
        family = families[unit.family]
        problems += wrong(bench.read(name_of(family.notes)), facts, unit.name, runnable_names(family))
    return tuple(problems)


def _fits(bench: Bench, unit: Unit, family: Family) -> bool:
    """Whether a public checkpoint's weights leave room for a forward within the memory limit; told of when not."""
    needs = needs_of(unit, family, bench.home, bench.device)
    if needs.memory > bench.room:
        limit = f"a limit of {bench.room / GIGABYTE:.1f} GiB"
        bench.note(f"skipped {unit}: it needs {needs}, which does not fit {limit}")
        return False
    return True


def _bring_up_to_date(bench: Bench, keys: Mapping[Unit, str], families: Mapping[str, Family]) -> dict[Unit, Outcome]:
    """Do the units whose records do not carry these keys."""
    outcomes: dict[Unit, Outcome] = {}
    for unit, key in keys.items():
        if not bench.force and records.is_fresh(bench.home, unit, key):
            outcomes[unit] = Outcome(unit, "fresh", _told_of(bench, unit, families))
    real = _of_real_weights(families)
    missing = sorted((unit for unit in keys if unit not in outcomes), key=lambda unit: _longest_first(unit, real))
    bench.tell(Event("plan", total=len(missing)))
    return outcomes | {outcome.unit: outcome for outcome in _produce(bench, missing, keys, families)}


def _of_real_weights(families: Mapping[str, Family]) -> set[tuple[str, str]]:
    """Family and name of the checkpoints whose weights are trained: of their full size, unlike forged ones."""
    return {
        (name, own)
        for name, family in families.items()
        for own in (*(each.name for each in family.packages), *(each.id for each in family.checkpoints))
    }


def _longest_first(unit: Unit, real: Collection[tuple[str, str]]) -> tuple[bool, bool, int, Unit]:
    """Runs before references, and of them those of real weights: one that begins late is waited for at the end."""
    return unit.kind != "run", (unit.family, unit.name) not in real, unit.position, unit


def _job(bench: Bench, number: int, unit: Unit, families: Mapping[str, Family]) -> Job:
    """A unit as a job for a process, here or on a cluster."""
    needs = needs_of(unit, families.get(unit.family), bench.home, bench.device)
    arguments = (str(bench.folder), str(bench.home), unit.family, unit.kind, unit.name)
    device = (bench.device,) if needs.accelerators else ()
    return Job(str(number), bench.produce, (*arguments, *device), needs.memory, needs.accelerators, str(unit))


def _run(bench: Bench, jobs: Sequence[Job], started: Callable[[Job], None]) -> Iterator[Result]:
    if bench.cluster is not None:
        return bench.cluster.run(jobs, bench.folder, started, bench.note)
    return run_jobs(jobs, bench.workers, bench.limits, started)


def _produce(
    bench: Bench, missing: Sequence[Unit], keys: Mapping[Unit, str], families: Mapping[str, Family]
) -> Iterator[Outcome]:
    """Do the units, in worker processes; each record is on disk before its outcome is told."""
    units = {str(number): unit for number, unit in enumerate(missing)}
    jobs = [_job(bench, number, unit, families) for number, unit in enumerate(missing)]
    results = _run(bench, jobs, lambda job: bench.tell(Event("start", unit=units[job.name])))
    for result in results:
        unit = units[result.job.name]
        if result.cause is None:
            records.store(bench.home, unit, keys[unit], result.value)
            problems = _told_of(bench, unit, families)
            outcome = Outcome(
                unit, "built", problems, seconds=result.seconds, peak=result.peak, resident=result.resident
            )
        else:
            records.drop(bench.home, unit)
            outcome = Outcome(
                unit, "failed", cause=result.cause, exit_code=result.exit_code, trace=result.trace,
                seconds=result.seconds, peak=result.peak, resident=result.resident,
            )  # fmt: skip
        bench.tell(Event("end", unit=unit, outcome=outcome))
        yield outcome
