"""One bad job must cost its own result and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nnpedia.errors import NnpediaError
from nnpedia.pool import Job, Limits, Result, default_limits, run_jobs


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """These jobs need none of what the fork server imports for real ones."""
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])


def run(*jobs: Job, limits: Limits | None = None, workers: int = 2) -> dict[str, Result]:
    return {result.job.name: result for result in run_jobs(jobs, workers=workers, limits=limits)}


def job(function: str, *args: object) -> Job:
    return Job(function, f"crashing:{function}", args)


def test_results_come_back_with_their_job() -> None:
    results = run(*(Job(str(n), "crashing:double", (n,)) for n in range(5)))
    assert {name: result.value for name, result in results.items()} == {str(n): 2 * n for n in range(5)}
    assert all(result.cause is None for result in results.values())


@pytest.mark.parametrize(
    ("function", "cause", "exit_code"),
    [
        ("vanish", "its process ended with code 7 before it had a result", 1),
        ("segfault", "its process was ended by SIGSEGV", 1),
        ("fail", "ValueError: first line", 1),
        ("bad_input", "family.yml:3: unknown key", 2),
        ("broken_fact", "family.yml:9: the law does not hold", 1),
    ],
)
def test_a_failure_is_one_line_and_the_others_stand(function: str, cause: str, exit_code: int) -> None:
    results = run(job(function), job("double", 4))
    assert (results[function].cause, results[function].exit_code) == (cause, exit_code)
    assert results["double"].value == 8


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="nothing shows what a process was started with")
def test_a_worker_is_not_started_with_the_secrets_of_the_build(tmp_path: Path) -> None:
    """Neither known ones nor any other: what a process was started with can be read for as long as it lives."""
    script = (
        "import os\nfrom nnpedia import pool\npool.PRELOAD = ['nnpedia.record']\n"
        "if __name__ == '__main__':\n"
        "    jobs = [pool.Job('a', 'crashing:started_with', (os.getpid(),)),\n"
        "            pool.Job('b', 'crashing:environment', ('HF_TOKEN',))]\n"
        "    found = {each.job.name: each.value for each in pool.run_jobs(jobs)}\n"
        "    print(len(found['a']), any(b'hf_secret' in each or b'1234' in each for each in found['a']),\n"
        "          all(b'PATH=' in each for each in found['a']), found['b'], os.environ['BANK'])\n"
    )
    (tmp_path / "build.py").write_text(script)
    environment = {**os.environ, "HF_TOKEN": "hf_secret", "BANK": "1234"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, tmp_path / "build.py"], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "2 False True hf_secret 1234\n"  # a job that fetches from the Hub has its token, in a message


def test_a_missing_function_and_a_result_that_cannot_travel_are_failures() -> None:
    results = run(job("nowhere"), job("unpicklable"))
    assert "nowhere" in (results["nowhere"].cause or "")
    assert "pickle" in (results["unpicklable"].cause or "").lower()


def test_the_traceback_and_the_output_are_kept_for_debugging() -> None:
    results = run(job("fail"), job("loud"))
    assert "second line" in results["fail"].trace
    assert "a word before the end" in results["loud"].trace


def test_a_hang_ends_at_its_limit_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    results = run(job("hang_with_child", str(pids)), job("double", 1), limits=Limits(seconds=3.0))
    assert results["hang_with_child"].cause == "took longer than its limit of 3 s and was ended"
    assert results["double"].value == 2
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_a_memory_hog_ends_at_its_limit() -> None:
    results = run(job("swallow"), job("double", 1), limits=Limits(seconds=60, memory=2**30))
    assert "more than its limit of 1.0 GiB" in (results["swallow"].cause or "")
    assert results["double"].value == 2


def test_a_job_sees_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        monkeypatch.setenv("NNPEDIA_PROBE", value)
        assert run(job("environment", "NNPEDIA_PROBE"))["environment"].value == value


def test_a_killed_build_leaves_no_process_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "from nnpedia import pool\nfrom nnpedia.pool import Job, run_jobs\npool.PRELOAD = []\n"
        f"list(run_jobs([Job('x', 'crashing:hang_with_child', ({str(pids)!r},))]))"
    )
    build = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parent)
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    build.kill()
    build.wait()
    until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNPEDIA_SECONDS", "5")
    monkeypatch.setenv("NNPEDIA_MEMORY", "0.5")
    assert default_limits() == Limits(5.0, 2**29)
    monkeypatch.setenv("NNPEDIA_SECONDS", "soon")
    with pytest.raises(NnpediaError, match="NNPEDIA_SECONDS is 'soon'"):
        default_limits()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # a process that ended and was not yet collected is not alive
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def until(holds: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
