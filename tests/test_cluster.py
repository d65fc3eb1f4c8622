"""A build on a cluster makes the records a local one makes, whatever becomes of its workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Loopback
from small_families import copy_families

from nnpedia import cluster, work
from nnpedia.cache import families_folder
from nnpedia.errors import NnpediaError
from nnpedia.work import Event, Outcome

FAMILY = "mpt"


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """A scheduler with two workers: one alone, one under a nanny, as `dask worker` starts it."""
    found = Loopback(tmp_path_factory.mktemp("cluster"))
    try:
        found.start()
        found.work("alone", "--no-nanny", "--resources", "memory=5e9")
        found.work("nursed", "--resources", "memory=4e9")
        yield found
    finally:
        found.stop()


def records(home: Path) -> dict[str, bytes]:
    return {
        path.relative_to(home).as_posix(): path.read_bytes()
        for path in sorted((home / "records").rglob("*"))
        if path.suffix in (".json", ".key")
    }


def build(loopback: Loopback, home: Path, *families: str, **options: object) -> tuple[list[Outcome], list[str]]:
    said: list[str] = []

    def tell(event: Event) -> None:
        if event.kind == "note":
            said.append(event.text)

    outcomes = work.build(
        families or None, cache_folder=home, scheduler=loopback.address, on_event=tell, **options  # type: ignore[arg-type]
    )  # fmt: skip
    return outcomes, said


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two families whose units are made in no time, in a checkout with a page."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "start.md").write_text("# Start\n\n```python\nassert True\n```\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\n")
    return copy_families(tmp_path / "families")


def test_units_come_back_from_both_workers_and_failures_with_their_cause(loopback: Loopback, quick: Path) -> None:
    outcomes, _ = build(loopback, quick.parent / "cache", folder=quick, produce="crashing:sample")
    assert {outcome.status for outcome in outcomes} == {"built"}
    assert any(outcome.unit.kind == "page" for outcome in outcomes)
    again, _ = build(loopback, quick.parent / "cache", folder=quick, produce="crashing:sample")
    assert {outcome.status for outcome in again} == {"fresh"}
    broken, _ = build(loopback, quick.parent / "cache", folder=quick, produce="crashing:vanish_with", force=True)
    assert {outcome.cause for outcome in broken} == {"its process ended with code 7 before it had a result"}


def test_a_unit_goes_where_there_is_room_and_one_that_fits_nowhere_is_one_red_row(
    loopback: Loopback, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"llama": 4_500_000_000, "gpt2": 6_000_000_000}
    monkeypatch.setattr(
        "nnpedia.work.needs_of", lambda unit, *_: work.Needs(sizes.get(unit.family, 1) if unit.kind == "run" else 1)
    )
    outcomes, _ = build(loopback, quick.parent / "cache", folder=quick, produce="crashing:where")
    failed = {outcome.unit.family: outcome.cause for outcome in outcomes if outcome.status == "failed"}
    assert failed == {"gpt2": "needs 5.6 GiB of memory, and the largest worker has 4.7 GiB"}
    large = quick.parent / "cache" / "records" / "llama" / "run-00-forge.json"
    assert '"printout":"alone"' in large.read_text()


def test_a_worker_with_other_packages_is_refused_in_one_line(loopback: Loopback, quick: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "einops-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: einops\nVersion: 0.0.1\n")
    loopback.work("odd", "--no-nanny", PYTHONPATH=str(other.parent))
    client = cluster._connect(loopback.address)
    client.wait_for_workers(3, timeout=30)
    client.close()
    try:
        with pytest.raises(NnpediaError, match=r"has einops 0\.0\.1, this build .*: install the same there") as raised:
            build(loopback, quick.parent / "cache", folder=quick, produce="crashing:sample")
        assert (raised.value.exit_code, "\n" in str(raised.value)) == (2, False)
    finally:
        loopback.kill("odd")


def test_what_no_worker_is_left_for_fails_after_a_while(
    loopback: Loopback, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only worker large enough is gone: its unit is one red row, and the others are made."""
    monkeypatch.setattr("nnpedia.cluster.PATIENCE", 1.0)
    sizes = {"llama": 5_500_000_000}
    monkeypatch.setattr(
        "nnpedia.work.needs_of", lambda unit, *_: work.Needs(sizes.get(unit.family, 1) if unit.kind == "run" else 1)
    )
    loopback.work("huge", "--no-nanny", "--resources", "memory=6e9")
    client = cluster._connect(loopback.address)
    client.wait_for_workers(3, timeout=30)
    client.close()

    def tell(event: Event) -> None:
        if event.kind == "plan" and "huge" in loopback.workers:
            loopback.kill("huge")

    outcomes = work.build(
        cache_folder=quick.parent / "cache", folder=quick, produce="crashing:sample", scheduler=loopback.address,
        on_event=tell,
    )  # fmt: skip
    failed = {outcome.unit.family: str(outcome.cause) for outcome in outcomes if outcome.status == "failed"}
    assert failed == {"llama": f"{loopback.address} has had no worker for it for 1 s"}


def test_a_killed_worker_costs_time_and_nothing_else(loopback: Loopback, tmp_path: Path) -> None:
    said: list[str] = []
    started: list[str] = []

    def tell(event: Event) -> None:
        if event.kind == "note":
            said.append(event.text)
        if event.kind == "start":
            started.append(str(event.unit))
            if len(started) == 2 and "alone" in loopback.workers:  # both are at work
                loopback.kill("alone")

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    outcomes = work.build([FAMILY], cache_folder=theirs, scheduler=loopback.address, on_event=tell)
    assert {(outcome.status, outcome.cause, outcome.problems) for outcome in outcomes} == {("built", None, ())}
    assert any("is started again: its worker was lost" in line for line in said), said
    local = work.build([FAMILY], cache_folder=ours)
    assert all(outcome.ok for outcome in local)
    assert records(theirs) == records(ours)
    assert not (theirs / "checkpoints").exists()  # made where the unit ran
    assert list((loopback.folder / "nursed" / "checkpoints").glob(f"{FAMILY}-forge-*"))


def test_a_scheduler_that_dies_ends_the_build_in_one_line_and_another_takes_it_up(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    theirs = quick.parent / "cache"
    done: list[str] = []

    def tell(event: Event) -> None:
        if event.kind == "end":
            done.append(str(event.unit))
            if len(done) == 1:
                mortal.kill_scheduler()

    (tmp_path / "first").mkdir()
    mortal = Loopback(tmp_path / "first")
    try:
        mortal.start()
        mortal.work("alone", "--no-nanny")
        with pytest.raises(NnpediaError) as raised:
            work.build(
                folder=quick, cache_folder=theirs, produce="crashing:slow_sample", scheduler=mortal.address,
                on_event=tell,
            )  # fmt: skip
        assert re.fullmatch(
            rf"{mortal.address}: the scheduler went away with 1 of \d units done; their records are kept, and .*",
            str(raised.value),
        )
        assert raised.value.exit_code == 2
        assert capfd.readouterr().err == ""  # nor does Dask say it in its own words
    finally:
        mortal.stop()
    kept = records(theirs)
    assert len([name for name in kept if name.endswith(".json")]) == len(done) == 1

    (tmp_path / "second").mkdir()
    heir = Loopback(tmp_path / "second")
    try:
        heir.start()
        heir.work("alone", "--no-nanny")
        outcomes, _ = build(heir, theirs, folder=quick, produce="crashing:slow_sample")
    finally:
        heir.stop()
    assert {str(outcome.unit) for outcome in outcomes if outcome.status == "fresh"} == set(done)
    assert {outcome.status for outcome in outcomes} == {"fresh", "built"}
    local = work.build(folder=quick, cache_folder=tmp_path / "ours", produce="crashing:slow_sample")
    assert all(outcome.ok for outcome in local)
    assert records(theirs) == records(tmp_path / "ours")
    assert kept.items() <= records(theirs).items()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "carrier-pigeon://x", "nowhere"])
def test_a_scheduler_that_does_not_answer_is_one_line(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "nnpedia.cli", "build", FAMILY, "--scheduler", address]
    script = "import nnpedia.cluster as c; c.CONNECT = 1.0\nimport sys; from nnpedia.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *command[3:]], capture_output=True, text=True, check=False,
        env={**os.environ, "NNPEDIA_FAMILIES": str(families_folder())},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"nnpedia: {address}: ")
    assert done.stderr.count("\n") == 1, done.stderr
