"""The build: which units of work there are, which are already done, and the doing of the rest.

A unit is one public checkpoint of a family at full size (`reference`), one checkpoint whose weights
run here (`run`), or one hand-written page's snippets (`page`). What it was made from — its spec and
the specs that extends, its notes, the vocabulary, this package's code, the versions of what
computes — is hashed into its key; a unit whose record carries the same key is not done again.
Planning imports neither torch nor transformers, so that a build with nothing to do is quick.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

from nnpedia import records
from nnpedia.cache import PACKAGE, families_folder, home
from nnpedia.checkpoints import runnable_names
from nnpedia.errors import NnpediaError, UnknownFamily, nearest
from nnpedia.family import Family, family_folders, load_family
from nnpedia.pool import Job, Limits, Result, default_limits, run_jobs
from nnpedia.record import Problem
from nnpedia.records import Unit

# What no fact depends on: these arrange and show facts, or run the units that find them.
# A module that is not named here counts, so that a new one can make work but never hide a change.
PRESENTATION = frozenset(
    (
        *("cache", "checking", "cli", "diagram", "entry", "hook", "pages", "pool", "prose", "publish", "pytest_plugin"),
        *("records", "rendering", "reporting", "views", "warm", "work"),
    )
)
COMPUTING = ("torch", "transformers", "nnsight", "einops", "tokenizers", "safetensors", "numpy")
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
    total: int = 0  # of the plan: how many units are to be done


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
    checkpoints are run with their weights too. Raises `SpecError` for a spec that does not
    validate and `UnknownFamily` for a name without a folder; what fails inside a unit is that unit's outcome.
    """
    folder, cache_folder = folder or families_folder(), cache_folder or home()
    known = family_folders(folder)
    chosen = {name: load_family(known[name]) for name in choose(families, known)}

    def note(text: str) -> None:
        on_event(Event("note", text=text))

    keys = {unit: key_of(unit, family) for family in chosen.values() for unit in units_of(family, hub)}
    if not families:
        keys |= page_keys(folder)
    with records.locked(cache_folder, note):
        outcomes: dict[Unit, Outcome] = {}
        missing: dict[Unit, str] = {}
        for unit, key in keys.items():
            if not force and records.is_fresh(cache_folder, unit, key):
                outcomes[unit] = Outcome(unit, "fresh", tuple(records.problems_of(cache_folder, unit)))
            else:
                missing[unit] = key
        spare = {*known, records.PAGES} - {*chosen} if families else ()
        for name in records.prune(cache_folder, keys, spare):
            note(f"records/{name} is deleted: what it told of is no longer there")
        on_event(Event("plan", total=len(missing)))
        for unit, outcome in _produce(missing, folder, cache_folder, workers, limits, on_event, produce):
            outcomes[unit] = outcome
    return [outcomes[unit] for unit in sorted(outcomes)]


def _produce(
    missing: dict[Unit, str],
    folder: Path,
    cache_folder: Path,
    workers: int,
    limits: Limits | None,
    on_event: Callable[[Event], None],
    produce: str | None,
) -> Iterable[tuple[Unit, Outcome]]:
    """Do the units; each record is on disk before its outcome is told."""
    jobs = {str(number): unit for number, unit in enumerate(sorted(missing, key=_longest_first))}
    arguments = {
        name: (str(folder), str(cache_folder), unit.family, unit.kind, unit.name) for name, unit in jobs.items()
    }
    results = run_jobs(
        [Job(name, produce or PRODUCE, arguments[name]) for name in jobs],
        workers,
        limits or default_limits(),
        started=lambda job: on_event(Event("start", unit=jobs[job.name])),
    )
    for result in results:
        unit = jobs[result.job.name]
        outcome = _outcome(unit, result)
        if outcome.status == "built":
            records.store(cache_folder, unit, missing[unit], result.value)
            outcome = Outcome(unit, "built", tuple(records.problems_of(cache_folder, unit)), seconds=result.seconds)
        else:
            records.drop(cache_folder, unit)
        on_event(Event("end", unit=unit, outcome=outcome))
        yield unit, outcome


def _outcome(unit: Unit, result: Result) -> Outcome:
    if result.cause is None:
        return Outcome(unit, "built", seconds=result.seconds)
    return Outcome(
        unit, "failed", cause=result.cause, exit_code=result.exit_code, trace=result.trace, seconds=result.seconds
    )


def _longest_first(unit: Unit) -> tuple[bool, int, Unit]:
    """Runs before references, a family's first checkpoints (real weights) before its forged one."""
    return unit.kind != "run", unit.position, unit


def choose(names: Sequence[str] | None, known: dict[str, Path]) -> list[str]:
    """The named families, or all; raises `UnknownFamily` for one that has no folder."""
    for name in names or ():
        if name not in known:
            hint = nearest(name, known) or f"; there is {', '.join(sorted(known)) or 'none'}"
            raise UnknownFamily(f"there is no family {name!r}{hint}")
    return list(dict.fromkeys(names)) if names else list(known)


def units_of(family: Family, hub: bool = False) -> list[Unit]:
    """A family's units: a reference per public checkpoint, a run per checkpoint that runs here."""
    return [
        *(Unit(family.family, "reference", place, each.id) for place, each in enumerate(family.checkpoints)),
        *(Unit(family.family, "run", place, name) for place, name in enumerate(runnable_names(family, hub))),
    ]


def key_of(unit: Unit, family: Family) -> str:
    """The digest of all that the unit's record is made from."""
    texts = [family.folder / "family.yml", *family.bases, family.folder.parent / "vocabulary.yml"]
    if unit.kind == "run":
        texts.append(family.notes)
    return _key(unit, texts)


def page_keys(folder: Path) -> dict[Unit, str]:
    """The hand-written pages of the checkout that `folder` lies in, and their keys; none elsewhere.

    A page may load any family, so every spec counts.
    """
    root = folder.parent
    if not (root / "mkdocs.yml").is_file():
        return {}
    specs = [folder / "vocabulary.yml", *(path / "family.yml" for path in family_folders(folder).values())]
    pages = [path for path in (root / "README.md", *sorted((root / "site").rglob("*.md"))) if "```" in _text(path)]
    units = {Unit(records.PAGES, "page", 0, path.relative_to(root).as_posix()): path for path in pages}
    return {unit: _key(unit, [path, *specs]) for unit, path in units.items()}


def _key(unit: Unit, texts: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for part in (unit.file, code_digest(), *versions(), *(_text(path) for path in texts)):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


@cache
def code_digest() -> str:
    """The digest of this package's sources that facts depend on."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.with_suffix("").parts[0] not in PRESENTATION:
            digest.update(f"{name.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@cache
def versions() -> tuple[str, ...]:
    """The versions of what computes, without importing it."""
    installed = [f"python {platform.python_version()}"]
    for name in COMPUTING:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            installed.append(f"{name} missing")
    return tuple(installed)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise NnpediaError(f"cannot be read as text ({error})", where=str(path)) from None
