"""What a unit needs is told before it starts, and one that does not fit is not started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_families import NOTES

from nnpedia import work
from nnpedia.cache import home
from nnpedia.cli import app
from nnpedia.family import load_family
from nnpedia.needs import AROUND, OWN, needs_of
from nnpedia.pool import Job, Limits, run_jobs
from nnpedia.records import Unit, path_of

LLAMA = load_family(Path(__file__).parent.parent / "families" / "llama")


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A cache whose references say how many parameters there are: a million per place in the spec, from 1."""
    for place, checkpoint in enumerate(LLAMA.checkpoints):
        path = path_of(tmp_path, Unit("llama", "reference", place, checkpoint.id))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"parameters": 1_000_000 * (place + 1)}))
    return tmp_path


def test_weights_are_parameters_times_their_bytes(counted: Path) -> None:
    first = LLAMA.checkpoints[0]
    assert first.dtype == "float16"
    assert needs_of(Unit("llama", "run", 2, first.id), LLAMA, counted).memory == OWN + AROUND * 2_000_000
    package = LLAMA.packages[0]
    place = next(at for at, each in enumerate(LLAMA.checkpoints) if each.id == package.id)
    own = needs_of(Unit("llama", "run", 0, package.name), LLAMA, counted)
    assert own.memory == OWN + AROUND * 4_000_000 * (place + 1)  # what a wheel carries is run in float32
    assert needs_of(Unit("llama", "reference", 0, first.id), LLAMA, counted).memory == OWN
    assert needs_of(Unit("llama", "run", 0, package.name), LLAMA, counted / "empty").memory == OWN


def test_only_weights_need_an_accelerator(tmp_path: Path) -> None:
    needs = {kind: needs_of(Unit("llama", kind, 0, "forge"), LLAMA, tmp_path, "cuda") for kind in ("run", "reference")}  # type: ignore[arg-type]
    assert (needs["run"].accelerators, needs["reference"].accelerators) == (1, 0)
    assert str(needs["run"]) == "0.4 GiB and an accelerator"


def test_a_job_that_does_not_fit_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    jobs = [Job("large", "crashing:vanish", memory=3 * 2**30), Job("small", "crashing:double", (2,), memory=2**20)]
    found = {result.job.name: result for result in run_jobs(jobs, limits=Limits(memory=2 * 2**30))}
    assert found["small"].value == 4
    assert found["large"].exit_code == 1
    assert str(found["large"].cause).startswith(
        "needs 3.0 GiB of memory, more than its limit of 2.0 GiB, and was not st"
    )


def test_a_list_says_what_there_is_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path))
    app(["build", "gpt2", "--list", "--json"], standalone_mode=False)
    listed = json.loads(capsys.readouterr().out)
    assert {
        "family": "gpt2",
        "kind": "run",
        "name": "forge",
        "fresh": False,
        "memory": OWN,
        "accelerators": 0,
    } in listed
    app(["build", "gpt2", "--list"], standalone_mode=False)
    assert "due    0.4 GiB  gpt2: forge" in capsys.readouterr().out
    assert not (tmp_path / "records").exists()


@pytest.mark.slow
def test_units_that_are_built_stay_under_what_they_were_said_to_need(tmp_path: Path) -> None:
    """A public checkpoint at full size, a forged one and trained weights: each within its needs, and not far below."""
    families = tmp_path / "families"
    families.mkdir()
    for name in ("vocabulary.yml", "badges.yml"):
        shutil.copy(LLAMA.folder.parent / name, families)
    shutil.copytree(LLAMA.folder, families / "llama")
    (families / "llama" / "notes.md").write_text(NOTES)
    family = load_family(families / "llama")
    package = family.packages[0]
    place = next(at for at, each in enumerate(family.checkpoints) if each.id == package.id)
    units = [Unit("llama", "reference", place, package.id), Unit("llama", "run", 1, "forge"),
             Unit("llama", "run", 0, package.name)]  # fmt: skip
    jobs = [
        Job(str(at), work.PRODUCE, (str(families), str(home()), "llama", unit.kind, unit.name))
        for at, unit in enumerate(units)
    ]
    done = {result.job.name: result for result in run_jobs(jobs, workers=1)}
    assert [result.cause for result in done.values()] == [None] * 3
    path = path_of(tmp_path, units[0])
    path.parent.mkdir(parents=True)
    path.write_text(done["0"].value)  # it counts the parameters that the third one's needs are told from
    for at, unit in enumerate(units):
        told, taken = needs_of(unit, family, tmp_path).memory, max(done[str(at)].peak, done[str(at)].resident)
        assert taken < told < 2 * taken, (str(unit), told, taken)
