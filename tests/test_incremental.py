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
from nnpedia.pool import Job, Result

PAGE = "# Start\n\n```python\nassert True\n```\n"
EDITS = ["spec", "base spec", "notes", "no notes", "vocabulary", "page", "family", "reader", "other reader", "version"]


@dataclass
class World:
    """A small checkout, and what lies outside of it that records are made from."""

    root: Path
    made: list[str] = field(default_factory=list)
    readers: dict[str, str] = field(
        default_factory=lambda: {"call.input_size": "first", "recurrence.channel_states": "first"}
    )
    version: str = "torch 1"

    @property
    def families(self) -> Path:
        return self.root / "families"

    def build(self, home: Path) -> dict[str, bytes]:
        """Bring a cache up to date; its records by file."""
        self.made.clear()
        outcomes = work.build(folder=self.families, cache_folder=home, produce="stands:in")
        assert all(outcome.ok for outcome in outcomes)
        folder = records.records_folder(home)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*.json")}

    def record(self, job: Job) -> str:
        """All that a unit's record may be made from, as the family is understood and not as it is spelt."""
        family, kind, name = job.args[2:5]
        self.made.append(f"{family} {kind}")
        facts: dict[str, Any] = {"problems": [], "name": name, "version": self.version}
        if kind == "page":
            every = sorted(path.parent for path in self.families.glob("*/family.yml"))
            facts |= {"page": (self.root / name).read_text(), "families": [self.understood(each) for each in every]}
            return json.dumps(facts | {"readers": self.readers})
        folder = self.families / family
        facts["family"] = self.understood(folder)
        values = [spec for table in load_family(folder).values.values() for spec in table.values()]
        facts["readers"] = [self.readers[spec.reader] for spec in values if spec.reader in self.readers]
        notes = folder / "notes.md"
        return json.dumps(facts | {"notes": notes.read_text() if kind == "run" and notes.exists() else None})

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
        elif what == "notes":
            spec.with_name("notes.md").write_text(f"# Notes {number}\n")
        elif what == "no notes":
            spec.with_name("notes.md").unlink(missing_ok=True)
        elif what == "vocabulary":
            path = self.families / "vocabulary.yml"
            path.write_text(re.sub(r"says: (?=[A-Z])", f"says: Wording {number} ", path.read_text(), count=1))
        elif what == "page":
            (self.root / "site" / "start.md").write_text(f"{PAGE}\n{number}\n")
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
        monkeypatch.setattr("nnpedia.work.runnable_names", lambda family, hub=False: ["forge"])
        monkeypatch.setattr("nnpedia.keys.versions", lambda: (world.version,))
        monkeypatch.setattr("nnpedia.keys._readers", lambda: world.readers)
        return world

    return make


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.lists(st.sampled_from(EDITS), max_size=3), st.integers(1, 3)), max_size=4))
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
        assert warm == world.build(root / f"cold-{number}")
        assert world.build(root / "warm") == warm
        assert not world.made  # nothing changed: nothing is done


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
