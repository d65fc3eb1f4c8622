"""Whatever was edited, in whatever order: a build that does only what changed leaves what a cold build makes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_families import copy_families

from nnpedia import keys, records, work
from nnpedia.cache import families_folder
from nnpedia.family import load_family
from nnpedia.fences import Fence, fences
from nnpedia.pagecode import apart, running
from nnpedia.pool import Job, Result
from nnpedia.snippets import run_fences

PAGE = "# Start\n\n```python\nassert True\n```\n"
EDITS = [
    "spec",
    "base spec",
    "empty notes",
    "vocabulary",
    "page",
    "page prose",
    "family",
    "reader",
    "other reader",
    "version",
]
IN_NOTES = ["prose", "prose", "fence", "code", "options", "moved", "twice", "continues", "gone"]  # edits of notes.md
FENCES = [
    "```python\nx = 1\nprint(x)\n```",
    "```python\nx = 1\nassert x == 2\n```",  # fails, in its second line
    "```python continues\nprint(x)\n```",
    "```python on=other\nassert True\n```",
    '```python norun="slow"\nassert True\n```',
    "```python bad\nassert True\n```",  # fails wherever it is
]


RUNNABLES = ["forge", "other"]


@dataclass
class World:
    """A small checkout, and what lies outside of it that records are made from."""

    root: Path
    made: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=lambda: ["# Notes"])  # of gpt2's notes.md: prose and fences
    readers: dict[str, str] = field(
        default_factory=lambda: {"call.input_size": "first", "recurrence.channel_states": "first"}
    )
    version: str = "torch 1"

    @property
    def families(self) -> Path:
        return self.root / "families"

    def build(self, home: Path) -> dict[str, bytes]:
        """Bring a cache up to date; its records by file, and in `wrong` what is told of it."""
        self.made.clear()
        outcomes = work.build(folder=self.families, cache_folder=home, produce="stands:in")
        assert not any(outcome.status == "failed" for outcome in outcomes)
        self.wrong = [f"{problem.where}: {problem.what}" for outcome in outcomes for problem in outcome.problems]
        folder = records.records_folder(home)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*.json")}

    def record(self, job: Job) -> str:
        """All that a unit's record may be made from, as the family is understood and not as it is spelt."""
        family, kind, name = job.args[2:5]
        self.made.append(f"{family} {kind}")
        facts: dict[str, Any] = {"problems": [], "name": name, "version": self.version}
        if kind == "page":
            every = sorted(path.parent for path in self.families.glob("*/family.yml"))
            facts |= {
                "snippets": given_by(fences(self.root / name, file=name)),
                "families": [*map(self.understood, every)],
            }
            return json.dumps(facts | {"readers": self.readers})
        folder = self.families / family
        facts["family"] = self.understood(folder)
        values = [spec for table in load_family(folder).values.values() for spec in table.values()]
        facts["readers"] = [self.readers[spec.reader] for spec in values if spec.reader in self.readers]
        notes = folder / "notes.md"
        found = fences(notes, file=f"families/{family}/notes.md") if notes.exists() and kind == "run" else []
        return json.dumps(facts | {"snippets": given_by(running(found, name, RUNNABLES))})

    def understood(self, folder: Path) -> str:
        return repr(load_family(folder))

    def edit(self, what: str, number: int) -> None:
        spec = self.families / "gpt2" / "family.yml"
        if what == "spec":
            self._change(spec, subtitle=f"the {number}th wording")
        elif what == "base spec":
            base = self.families / "llama" / "family.yml"
            said = {"layers": {"layer_input": {"says": f"What enters, in the {number}th wording"}}}
            self._change(base, values=yaml.safe_load(base.read_text()).get("values", {}) | said)  # which gpt2 inherits
        elif what in IN_NOTES:
            self.pieces = edited(self.pieces, what, number)
            spec.with_name("notes.md").write_text("\n\n".join(self.pieces) + "\n")
        elif what == "empty notes":
            spec.with_name("notes.md").write_text("")
        elif what == "vocabulary":
            path = self.families / "vocabulary.yml"
            path.write_text(re.sub(r"says: (?=[A-Z])", f"says: Wording {number} ", path.read_text(), count=1))
        elif what == "page":
            (self.root / "site" / "start.md").write_text(PAGE.replace("True", f"{number}"))
        elif what == "page prose":
            page = self.root / "site" / "start.md"
            page.write_text(f"{number}\n\n{page.read_text()}")
        elif what == "family":
            other = self.families / "twin"
            if other.exists():
                shutil.rmtree(other)
            else:
                shutil.copytree(spec.parent, other)
                self._change(other / "family.yml", family="twin")
        elif what == "version":
            self.version = f"torch {number}"
        else:
            self.readers["call.input_size" if what == "reader" else "recurrence.channel_states"] = f"the {number}th"

    def _change(self, path: Path, **changes: Any) -> None:
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes, sort_keys=False, width=1000))


def edited(pieces: list[str], what: str, number: int) -> list[str]:
    """The pieces of notes with one edit, at a place that the number tells."""
    held = [index for index, piece in enumerate(pieces) if piece.startswith("```")]
    at = 1 + number % len(pieces)
    if what == "prose":
        return [*pieces[:at], f"A paragraph\nof {number} lines." * number, *pieces[at:]]
    if what == "fence" or not held:
        return [*pieces[:at], FENCES[number % len(FENCES)], *pieces[at:]]
    chosen = held[number % len(held)]
    piece, rest = pieces[chosen], [each for index, each in enumerate(pieces) if index != chosen]
    changed = {
        "code": piece.replace("\n", f"\n# {number}\n", 1),
        "options": piece.replace("python", "python attn_implementation=eager", 1),
        "continues": piece.replace(" continues", "")
        if " continues" in piece
        else piece.replace("python", "python continues"),
        "twice": f"{piece}\n\n{piece}",
    }
    if what in changed:
        return [*pieces[:chosen], *changed[what].split("\n\n"), *pieces[chosen + 1 :]]
    return rest if what == "gone" else [*rest[:at], piece, *rest[at:]]


def given_by(found: Sequence[Fence]) -> list[Any]:
    """What running fences gives, as a record tells it."""
    facts = run_fences(apart(running(found)), lambda load, on: None, "")
    return [fact.model_dump() for fact in facts]


@pytest.fixture
def world_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], World]]:
    """Makes worlds whose units are done in this process."""

    def make(root: Path) -> World:
        (root / "site").mkdir(parents=True)
        (root / "site" / "start.md").write_text(PAGE)
        (root / "mkdocs.yml").write_text("site_name: x\n")
        copy_families(root / "families")
        world = World(root)

        def run(bench: Any, jobs: Sequence[Job], started: Any) -> Iterator[Result]:
            return (Result(job, value=world.record(job)) for job in jobs)

        monkeypatch.setattr("nnpedia.work._run", run)
        for module in ("work", "keys"):
            monkeypatch.setattr(f"nnpedia.{module}.runnable_names", lambda family, hub=False: RUNNABLES)
        monkeypatch.setattr("nnpedia.keys.versions", lambda: (world.version,))
        monkeypatch.setattr("nnpedia.keys._readers", lambda: world.readers)
        return world

    return make


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.lists(st.sampled_from(EDITS + IN_NOTES), max_size=3), st.integers(1, 6)), max_size=4)
)
def test_incremental_and_cold_builds_leave_the_same_bytes(
    steps: list[tuple[list[str], int]],
    world_in: Callable[[Path], World],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("world")
    world = world_in(root)
    world.build(root / "warm")
    for number, (edits, salt) in enumerate(steps):
        for edit in edits:
            world.edit(edit, salt)
        warm = world.build(root / "warm")
        told = world.wrong
        assert warm == world.build(root / f"cold-{number}")
        assert told == world.wrong  # and of a failure the line that it has now
        for line in told:
            assert exact(root, line)
        assert world.build(root / "warm") == warm
        assert not world.made  # nothing changed: nothing is done


def exact(root: Path, told: str) -> bool:
    """Whether a problem's `file:line` is a line that can be its cause."""
    name, line, what = told.split(":", 2)
    lines = (root / name).read_text().split("\n")
    return ("assert x == 2" in what) == (lines[int(line) - 1] == "assert x == 2")


def test_only_the_runs_of_a_fence_that_changed_are_done_again(
    world_in: Callable[[Path], World], tmp_path: Path
) -> None:
    world = world_in(tmp_path)
    world.pieces += [FENCES[1], FENCES[3]]
    notes = world.families / "gpt2" / "notes.md"

    def made_after(*change: str) -> list[str]:
        world.pieces = [piece.replace(*change) for piece in world.pieces]
        notes.write_text("\n\n".join(world.pieces) + "\n")
        world.build(tmp_path / "cache")
        return world.made

    assert {"gpt2 run"} < set(made_after("", ""))
    assert [each.partition(": ")[0] for each in world.wrong] == ["families/gpt2/notes.md:5"]
    assert made_after("# Notes", "# Notes\n\nof more\n\nlines") == []
    assert [each.partition(": ")[0] for each in world.wrong] == ["families/gpt2/notes.md:9"]
    assert made_after("assert True", "assert 1") == ["gpt2 run"]  # the one of two that `on=` names
    assert made_after("assert x == 2", "assert x == 1") == ["gpt2 run"]
    assert world.wrong == []


def test_a_reader_redoes_the_families_that_read_through_it(world_in: Callable[[Path], World], tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.build(tmp_path / "cache")
    world.edit("other reader", 7)
    world.build(tmp_path / "cache")
    assert world.made == ["_pages page"]  # a page may load any family
    world.edit("reader", 7)
    world.build(tmp_path / "cache")
    assert {"llama run", "gpt2 run", "llama reference", "gpt2 reference"} < set(world.made)


def test_real_families_are_asked_for_the_readers_that_they_name() -> None:
    states = keys._readers()["recurrence.channel_states"]
    assert "def channel_states" in states
    assert states in keys.readers_of(load_family(families_folder() / "mamba"))
    assert states not in keys.readers_of(load_family(families_folder() / "llama"))
