"""The build does again exactly what changed, loses nothing, and publishes nothing stale."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from small_families import copy_families

from nnpedia import keys, records, work
from nnpedia.checkpoints import runnable_names, runnables
from nnpedia.errors import SpecError, UnknownFamily
from nnpedia.family import load_families, load_family
from nnpedia.pool import Limits
from nnpedia.work import Event, Outcome

ROOT = Path(__file__).parent.parent


@dataclass
class Checkout:
    """A checkout with two families, `gpt2` extending `llama`, and one hand-written page."""

    root: Path
    said: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    @property
    def families(self) -> Path:
        return self.root / "families"

    @property
    def home(self) -> Path:
        return self.root / "cache"

    def build(self, *names: str, produce: str = "sample", **options: object) -> dict[str, Outcome]:
        outcomes = work.build(
            names,
            folder=self.families,
            cache_folder=self.home,
            produce=f"crashing:{produce}",
            on_event=self._note,
            **options,  # type: ignore[arg-type]
        )
        return {f"{each.unit.family} {each.unit.kind}": each for each in outcomes}

    def _note(self, event: Event) -> None:
        if event.kind == "note":
            self.said.append(event.text)
        if event.kind == "start":
            self.begun.append(str(event.unit))

    def made(self, *names: str, **options: object) -> set[str]:
        """Build, and say which units were done."""
        return {name for name, outcome in self.build(*names, **options).items() if outcome.status == "built"}  # type: ignore[arg-type]


ALL = {"llama reference", "llama run", "gpt2 reference", "gpt2 run", "_pages page"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "start.md").write_text("# Start\n\n```python\nassert True\n```\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    copy_families(tmp_path / "families")
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    monkeypatch.setattr(
        "nnpedia.work.runnable_names",
        lambda family, hub=False: ["forge"] + [each.id for each in family.checkpoints] * hub,
    )
    monkeypatch.setattr("nnpedia.keys.versions", lambda: ("torch 1",))
    return Checkout(tmp_path)


def edit(path: Path, old: str = "", new: str = "") -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else f"# a word more\n\n{text}\n# and another\n")


def test_nothing_changed_means_nothing_done(checkout: Checkout) -> None:
    assert checkout.made() == ALL
    before = {path: path.read_bytes() for path in checkout.home.rglob("*.json")}
    assert checkout.made() == set()
    assert {path: path.read_bytes() for path in checkout.home.rglob("*.json")} == before
    assert checkout.made(force=True) == ALL


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        (lambda c: edit(c.families / "gpt2" / "family.yml"), {"gpt2 reference", "gpt2 run", "_pages page"}),
        (lambda c: edit(c.families / "llama" / "family.yml"), ALL),
        (lambda c: edit(c.families / "gpt2" / "notes.md"), set()),
        (lambda c: edit(c.families / "gpt2" / "notes.md", "assert True", "assert 1"), {"gpt2 run"}),
        (lambda c: edit(c.families / "vocabulary.yml"), ALL),
        (lambda c: edit(c.root / "site" / "start.md"), set()),
        (lambda c: edit(c.root / "site" / "start.md", "```python", "```python network"), {"_pages page"}),
        (lambda c: edit(c.families / "badges.yml", "says: ", "says: Once more. "), set()),
    ],
    ids=["a spec", "a base", "prose", "a fence", "the vocabulary", "a page's prose", "a page's fence", "badges"],
)
def test_a_change_redoes_what_depends_on_it(
    checkout: Checkout, change: Callable[[Checkout], None], redone: set[str]
) -> None:
    checkout.made()
    change(checkout)
    assert checkout.made() == redone
    assert checkout.made() == set()


def test_new_code_and_new_versions_redo_everything(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout.made()
    monkeypatch.setattr("nnpedia.keys.versions", lambda: ("torch 2",))
    assert checkout.made() == ALL
    monkeypatch.setattr("nnpedia.keys.code_digest", lambda: "other")
    assert checkout.made() == ALL


def test_code_that_facts_depend_on_counts_and_the_rest_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(keys.PACKAGE, tmp_path / "nnpedia", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("nnpedia.keys.PACKAGE", tmp_path / "nnpedia")
    seen = [keys.code_digest.__wrapped__()]
    for module in ("pages", "cli"):
        edit(tmp_path / "nnpedia" / f"{module}.py")
        assert keys.code_digest.__wrapped__() == seen[0]
    for module in ("values", "record", "snippets"):
        edit(tmp_path / "nnpedia" / f"{module}.py")
        seen.append(keys.code_digest.__wrapped__())
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("end", "cause", "exit_code"),
    [("vanish", "ended with code 7", 1), ("fail", "ValueError: first line", 1), ("bad_input", "family.yml:3", 2)],
)
def test_a_family_that_breaks_is_one_failed_row(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, end: str, cause: str, exit_code: int
) -> None:
    checkout.made()
    edit(checkout.families / "gpt2" / "family.yml")
    monkeypatch.setenv("ENDS", json.dumps({"gpt2": end}))
    outcomes = checkout.build()
    failed = {name: outcome for name, outcome in outcomes.items() if outcome.status == "failed"}
    assert set(failed) == {"gpt2 reference", "gpt2 run"}
    assert all(cause in (outcome.cause or "") and outcome.exit_code == exit_code for outcome in failed.values())
    # what no longer holds is not there to be published; what still does, is
    assert set(records.load_all(checkout.home)) == {"llama"}
    monkeypatch.delenv("ENDS")
    assert checkout.made() == {"gpt2 reference", "gpt2 run"}


def test_a_hang_and_a_memory_hog_fail_alone(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", json.dumps({"gpt2": "hang"}))
    outcomes = checkout.build(workers=6, limits=Limits(seconds=5.0))
    assert "longer than its limit of 5 s" in (outcomes["gpt2 run"].cause or "")
    monkeypatch.setenv("ENDS", json.dumps({"llama": "swallow"}))
    outcomes |= checkout.build("llama", force=True, limits=Limits(seconds=60.0, memory=2**30))
    assert "more than its limit of 1.0 GiB" in (outcomes["llama run"].cause or "")
    assert outcomes["_pages page"].status == "built"


def test_problems_are_told_again_while_they_stand(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDS", json.dumps({"gpt2": "wrong"}))
    for status in ("built", "fresh"):
        outcome = checkout.build("gpt2")["gpt2 run"]
        assert (outcome.status, outcome.ok, outcome.problems[0].what) == (status, False, "the law is broken")


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"\x00\xff not a record"),
        lambda path: path.write_text(path.read_text().replace('"kind":"run"', '"kind":"later"')),
        lambda path: path.unlink(),
        lambda path: path.with_suffix(".key").write_text("garbled"),
        lambda path: path.with_suffix(".key").unlink(),
    ],
    ids=["cut short", "garbled", "of another version", "gone", "key garbled", "key gone"],
)
def test_a_harmed_record_is_made_again(checkout: Checkout, harm: Callable[[Path], None]) -> None:
    checkout.made()
    path = next(checkout.home.glob("records/gpt2/run-*.json"))
    good = path.read_bytes()
    harm(path)
    said: list[str] = []
    runs = [record for record in records.load_all(checkout.home, said.append)["gpt2"] if record.kind == "run"]
    assert runs or said or not path.exists()
    assert checkout.made() == {"gpt2 run"}
    assert path.read_bytes() == good


def test_a_removed_family_leaves_no_record(checkout: Checkout) -> None:
    checkout.made()
    (checkout.home / "records" / "llama" / ".run-00-forge.json.abc.tmp").write_text("left by a crash")
    shutil.rmtree(checkout.families / "gpt2")
    (checkout.root / "site" / "start.md").unlink()
    assert checkout.made() == set()
    left = {path.name for path in (checkout.home / "records").rglob("*") if path.name != ".lock"}
    assert left == {"llama"} | {path.name for path in (checkout.home / "records" / "llama").iterdir()}
    assert not any(name.endswith(".tmp") for name in left)
    assert any("gpt2" in line for line in checkout.said)


def test_building_one_family_leaves_the_others_alone(checkout: Checkout) -> None:
    checkout.made()
    edit(checkout.families / "llama" / "family.yml")
    assert checkout.made("gpt2") <= {"gpt2 reference", "gpt2 run"}
    assert set(records.load_all(checkout.home)) == {"llama", "gpt2"}


def test_records_come_in_the_order_of_the_spec(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["zeta", "alpha", "mid/../../../dle"]
    monkeypatch.setattr("nnpedia.work.runnable_names", lambda family, hub=False: names)
    checkout.made("llama")
    assert [each.origin.name for each in records.load_all(checkout.home)["llama"] if each.kind == "run"] == names
    assert all(path.is_relative_to(checkout.home) for path in checkout.root.rglob("run-*.json"))


def test_real_weights_begin_first_and_what_has_none_last(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"llama": ["forge", "a", "b"], "gpt2": ["forge", "c"]}
    monkeypatch.setattr("nnpedia.work.runnable_names", lambda family, hub=False: names[family.family])
    monkeypatch.setattr("nnpedia.work._of_real_weights", lambda families: {("llama", "b"), ("gpt2", "c")})
    checkout.build(workers=1)
    assert checkout.begun[:5] == ["gpt2: c", "llama: b", "gpt2: forge", "llama: forge", "llama: a"]
    assert all("at full size" in unit or ".md" in unit for unit in checkout.begun[5:])


def test_the_weights_of_packages_and_of_public_checkpoints_are_real() -> None:
    real = work._of_real_weights(load_families(ROOT / "families"))
    assert {("llama", "SmolLM2-135M-Instruct"), ("llama", "meta-llama/Llama-3.1-8B")} <= real
    assert not any(name.startswith("forge") for _, name in real)


def test_public_checkpoints_run_when_asked_and_their_records_stay_while_they_hold(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.made("gpt2")
    public = {each.id for each in load_family(checkout.families / "gpt2").checkpoints}
    small, large = sorted(public)
    sizes = {small: 1000, large: 10**12}
    monkeypatch.setattr("nnpedia.records.parameters_of", lambda home, reference: sizes[reference.name])

    def run_here() -> set[str]:
        return {path.name for path in checkout.home.glob("records/gpt2/run-*.json")}

    checkout.build("gpt2", hub=True)
    assert any(f"skipped gpt2: {large}" in line for line in checkout.said)
    asked = run_here()
    assert len(asked) == 2  # the small one, and the forged one
    checkout.build("gpt2")
    assert run_here() == asked
    edit(checkout.families / "gpt2" / "family.yml")
    checkout.build("gpt2")
    assert run_here() == {"run-00-forge.json"}


def test_the_names_planned_are_those_of_what_runs() -> None:
    for family in load_families(ROOT / "families").values():
        for hub in (False, True):
            assert runnable_names(family, hub) == [each.name for each in runnables(family, hub)]


def test_an_unknown_name_and_a_bad_spec_stop_before_anything_runs(checkout: Checkout) -> None:
    with pytest.raises(UnknownFamily, match="no family 'lama'; did you mean 'llama'"):
        checkout.build("lama")
    (checkout.families / "gpt2" / "family.yml").write_text("family: gpt2\n  title: [\n")
    with pytest.raises(SpecError, match="malformed YAML"):
        checkout.build()


def test_two_builds_at_once_do_each_unit_once(checkout: Checkout, tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
import nnpedia.pool, nnpedia.work
nnpedia.pool.PRELOAD = []
outcomes = nnpedia.work.build(folder=Path({str(checkout.families)!r}), cache_folder=Path({str(checkout.home)!r}),
                 produce="crashing:slow_sample")
sys.exit(not all(outcome.ok for outcome in outcomes))
"""
    seen = tmp_path / "seen"
    environment = os.environ | {"SEEN": str(seen)}
    builds = [
        subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment) for _ in range(2)
    ]
    assert [build.wait(60) for build in builds] == [0, 0]
    lines = seen.read_text().splitlines()
    assert len(lines) == len(set(lines)) == len(list(checkout.home.glob("records/*/*.json")))
    assert set(records.load_all(checkout.home)) == {"llama", "gpt2"}
