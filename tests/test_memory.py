"""Units that run at once fit the machine together, whoever says how large it is: its memory or a container's limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnpedia import memory
from nnpedia.pool import Job, run_jobs


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "memory" / "docker" / "x").mkdir(parents=True)
    return tmp_path


def limits(cgroups: Path, lines: str) -> set[int]:
    process = cgroups / "cgroup"
    process.write_text(lines)
    return set(memory._of_cgroups(process, cgroups))


def test_the_limit_of_a_container_counts_and_so_does_that_of_one_around_it(cgroups: Path) -> None:
    (cgroups / "one" / "memory.max").write_text("4000000000\n")
    (cgroups / "one" / "two" / "memory.max").write_text("max\n")
    assert limits(cgroups, "0::/one/two\n") == {4_000_000_000}
    (cgroups / "one" / "two" / "memory.max").write_text("3000000000\n")
    assert limits(cgroups, "0::/one/two\n") == {3_000_000_000, 4_000_000_000}
    (cgroups / "memory.max").write_text("2000000000\n")
    assert limits(cgroups, "0::/seen/from/outside\n") == {2_000_000_000}  # where a container sees its own as the root


def test_the_first_version_of_cgroups_counts_too(cgroups: Path) -> None:
    (cgroups / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")  # no limit
    (cgroups / "memory" / "docker" / "x" / "memory.limit_in_bytes").write_text("1500000000\n")
    assert limits(cgroups, "12:pids:/docker/x\n4:memory:/docker/x\n") == {1_500_000_000}
    assert limits(cgroups, "12:pids:/docker/x\n") == set()
    assert set(memory._of_cgroups(cgroups / "none", cgroups)) == set()


def test_the_least_of_all_limits_is_what_units_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_physical", lambda: iter([8_000_000_000]))
    monkeypatch.setattr(memory, "_of_cgroups", lambda: iter([4_000_000_000, 6_000_000_000]))
    assert memory.for_units() == int(4_000_000_000 * memory.SHARE)
    monkeypatch.setattr(memory, "_of_cgroups", lambda: iter(()))
    monkeypatch.setattr(memory, "_physical", lambda: iter(()))
    assert memory.for_units() is None


def spans(needs: list[int], room: int) -> dict[str, tuple[float, float]]:
    jobs = [Job(str(place), "crashing:span", (0.4,), memory=need) for place, need in enumerate(needs)]
    found = {result.job.name: result for result in run_jobs(jobs, workers=3, room=room)}
    assert all(result.cause is None for result in found.values()), found
    return {name: result.value for name, result in found.items()}


def together(spans: dict[str, tuple[float, float]]) -> set[frozenset[str]]:
    """The sets of jobs that were seen to run at one time: at the start of each, all that had not ended."""
    return {
        frozenset(other for other, (began, ended) in spans.items() if began <= start < ended)
        for start, _ in spans.values()
    }


def test_a_unit_waits_for_the_memory_that_others_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    needs = [30, 30, 10, 10]
    held = together(spans(needs, room=45))
    assert all(sum(needs[int(name)] for name in running) <= 45 for running in held), held
    assert any(len(running) > 1 for running in held), held  # smaller ones go ahead meanwhile
    free = together(spans(needs, room=100))
    assert any({"0", "1"} <= running for running in free), free


def test_what_is_larger_than_all_there_is_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own limit may allow it: what there is, is counted with care, and needs are estimates."""
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    held = together(spans([60, 10, 10], room=45))
    assert frozenset({"0"}) in held
    assert not any("0" in running and len(running) > 1 for running in held), held
