"""A machine that fails under a build loses nothing that was finished, and publishes nothing half-made."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest
from small_families import copy_families

from nnpedia import publish, records, work
from nnpedia.errors import NnpediaError
from nnpedia.work import Outcome

ROOT = Path(__file__).parent.parent
KILLS = 20


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of two small families whose units, and whose site, are made in no time."""
    copy_families(tmp_path / "families")
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SAYS", "the first build")
    monkeypatch.setattr("nnpedia.pool.PRELOAD", ["nnpedia.record"])
    monkeypatch.setattr("nnpedia.work.runnable_names", lambda family, hub=False: ["forge", "a", "b"])
    monkeypatch.setattr("nnpedia.keys.versions", lambda: ("torch 1",))
    monkeypatch.setattr("nnpedia.publish.check_recorded", lambda root: None)
    monkeypatch.setattr("nnpedia.publish.run_mkdocs", quick_site)
    monkeypatch.setattr("nnpedia.publish.inputs_key", lambda root: records_in(tmp_path / "home")["all"])
    return tmp_path


def build(root: Path, **options: object) -> list[Outcome]:
    return work.build(
        folder=root / "families", cache_folder=root / "home", produce="crashing:sample", workers=2, **options
    )  # type: ignore[arg-type]


def quick_site(root: Path, target: Path) -> None:
    """Twenty pages that all say what the records are."""
    said = records_in(root / "home")["all"]
    for number in range(20):
        (target / f"{number}.html").write_text(said)
        time.sleep(0.002)


def records_in(home: Path) -> dict[str, str]:
    found = {path.name: path.read_text() for path in sorted(home.glob("records/*/*.json"))}
    return found | {"all": str(hash(json.dumps(found)))}


def change(root: Path, number: int) -> None:
    """Make every unit one to be done again, and its record another."""
    os.environ["SAYS"] = f"build {number}"
    with (root / "families" / "vocabulary.yml").open("a") as file:
        file.write(f"# {number}\n")


def die_at(moment: float, root: Path) -> bool:
    """Build and publish in another process, killed after so many seconds; whether it was still at work."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            forkserver._forkserver = forkserver.ForkServer()  # the one of the tests is not this process's child
            forkserver.ensure_running = forkserver._forkserver.ensure_running
            forkserver.connect_to_new_process = forkserver._forkserver.connect_to_new_process
            build(root)
            publish.publish(root, root / "public")
            code = 0
        finally:
            os._exit(code)
    time.sleep(moment)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 9)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -9), "the build failed by itself"
    return code == -9


@pytest.mark.slow
def test_a_build_killed_at_any_moment_is_resumed(root: Path) -> None:
    build(root)
    publish.publish(root, root / "public")
    good = {path.relative_to(root) for path in (root / "home").rglob("*") if not path.name.startswith(".")}
    draw = random.Random(5)
    killed = 0
    for number in range(KILLS):
        change(root, number)
        if number % 2:  # in the publishing, which is the shorter part
            build(root)
        killed += die_at(draw.uniform(0.0, 0.1 if number % 2 else 1.5), root)
        said: list[str] = []
        records.load_all(root / "home", said.append)
        assert said == []  # whatever is there is whole
        pages = {path.read_text() for path in (root / "public").glob("*.html")} if (root / "public").exists() else set()
        assert len(pages) <= 1  # of one build, never of two
        assert pages or publish.kept(root / "public").exists()  # a site is there, under one of its two names

        outcomes = build(root)
        publish.publish(root, root / "public")
        assert [outcome.status for outcome in outcomes if not outcome.ok] == []
        assert {path.read_text() for path in (root / "public").glob("*.html")} == {records_in(root / "home")["all"]}
        left = {path.relative_to(root) for path in (root / "home").rglob("*") if not path.name.startswith(".")}
        assert left == good
        assert not list((root / "home").rglob("*.tmp"))
    assert killed >= KILLS // 3  # the others ended before their moment


@pytest.mark.slow
def test_what_was_finished_before_the_kill_is_not_done_again(root: Path) -> None:
    build(root)
    change(root, 0)
    for moment in (0.5, 0.6, 0.7, 0.8, 1.0, 1.2):
        before = {path: path.stat().st_mtime_ns for path in (root / "home").glob("records/*/*.key")}
        if not die_at(moment, root):
            break
        done = {path for path in before if path.exists() and path.stat().st_mtime_ns != before[path]}
        outcomes = build(root)
        fresh = {records.path_of(root / "home", each.unit).with_suffix(".key") for each in outcomes
                 if each.status == "fresh"}  # fmt: skip
        assert done <= fresh
        if done:
            return
        change(root, int(1000 * moment))
    pytest.fail("no kill came after a record and before the last")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte, which only root can make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here ({made.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def test_a_full_disk_stops_the_build_and_keeps_what_it_had(root: Path, small_disk: Path) -> None:
    shutil.rmtree(root / "home", ignore_errors=True)
    (root / "home").symlink_to(small_disk)
    build(root)
    whole = records_in(small_disk)
    publish.publish(root, root / "public")
    with (small_disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    change(root, 1)
    with pytest.raises(NnpediaError) as stopped:
        build(root)
    assert "a record cannot be written (No space left on device)" in str(stopped.value)
    assert stopped.value.exit_code == 2
    assert "\n" not in str(stopped.value)
    assert records_in(small_disk) == whole  # nothing was cut short
    assert not list(small_disk.rglob("*.tmp"))
    (small_disk / "filler").unlink()
    assert all(outcome.ok for outcome in build(root))


def test_a_checkpoint_that_the_disk_has_no_room_for(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnpedia.checkpoints import store

    monkeypatch.setenv("NNPEDIA_HOME", str(small_disk))

    def large(folder: Path) -> dict[str, int]:
        (folder / "weights").write_bytes(bytes(2**21))
        return {}

    with pytest.raises(NnpediaError, match=r"the checkpoint x cannot be written \(No space left on device\)"):
        store.kept("x", large)
    assert [path.name for path in (small_disk / "checkpoints").iterdir()] == [".x.lock"]


def test_a_site_that_the_disk_has_no_room_for(root: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(root)
    publish.publish(root, small_disk / "public")
    good = {path.name: path.read_bytes() for path in (small_disk / "public").iterdir()}
    change(root, 1)
    build(root, force=True)

    def large(root: Path, target: Path) -> None:
        (target / "index.html").write_bytes(bytes(2**21))

    monkeypatch.setattr("nnpedia.publish.run_mkdocs", large)
    monkeypatch.setattr("nnpedia.publish.inputs_key", lambda root: "another")
    with pytest.raises(NnpediaError, match=r"the site cannot be written \(No space left on device\)"):
        publish.publish(root, small_disk / "public")
    assert {path.name: path.read_bytes() for path in (small_disk / "public").iterdir()} == good
    assert [path.name for path in small_disk.iterdir()] == ["public"]


def test_a_cache_that_can_only_be_read_is_read(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnpedia.checkpoints import store

    monkeypatch.setenv("NNPEDIA_HOME", str(small_disk))
    made = store.kept("x", lambda folder: (folder / "weights").write_bytes(b"w") and {})
    os.utime(made / "weights", (1, 1))  # as after a copy
    remount(small_disk, "ro")
    assert store.kept("x", lambda folder: pytest.fail("built again")) == made
    with pytest.raises(NnpediaError, match=r"the checkpoint y cannot be written \(Read-only file system\)"):
        store.kept("y", lambda folder: {})


def test_a_build_on_a_cache_that_can_only_be_read_says_so(root: Path, small_disk: Path) -> None:
    (root / "home").symlink_to(small_disk)
    build(root)
    whole = records_in(small_disk)
    change(root, 1)
    remount(small_disk, "ro")
    with pytest.raises(
        NnpediaError, match=r"the records cannot be written \(Read-only file system\); set NNPEDIA_HOME"
    ):
        build(root)
    assert records_in(small_disk) == whole


def test_a_record_of_another_version_of_the_package_is_left_out_and_made_again(root: Path) -> None:
    build(root)
    good = records_in(root / "home")
    path = next((root / "home").glob("records/gpt2/run-*.json"))
    later = json.loads(path.read_text()) | {"of_a_later_version": [1]}
    earlier = {key: value for key, value in later.items() if key not in ("of_a_later_version", "loads")}
    for other in (later, earlier):
        path.write_text(json.dumps(other))
        said: list[str] = []
        found = records.load_all(root / "home", said.append)
        assert len(said) == 1
        assert f"{path}: this record cannot be read and is left out" in said[0]
        assert found["gpt2"]  # the others stand
        assert {each.status for each in build(root)} == {"fresh", "built"}
        assert records_in(root / "home") == good


SAID = {
    "cut": "peer closed connection", "stall": "timed out", "lie": "peer closed connection",
    "portal": "what answers is no Hub",
}  # fmt: skip


@pytest.mark.parametrize("fault", SAID)
def test_a_download_that_breaks_off_leaves_nothing_that_looks_whole(tmp_path: Path, fault: str) -> None:
    """A server cuts the connection in the middle of the weights, stalls there, says more is to come, or is no Hub."""
    from faulty_hub import Hub

    code = (
        "import sys\nfrom huggingface_hub import constants\nconstants.HF_HUB_DOWNLOAD_TIMEOUT = 1\n"
        "import huggingface_hub.file_download as each\neach.time.sleep = lambda seconds: None\n"
        "from nnpedia.checkpoints import hub\nfrom nnpedia.errors import NnpediaError\n"
        "try:\n    print(hub.fetch('somebody/small'))\n"
        "except NnpediaError as error:\n    print(error, file=sys.stderr)\n    sys.exit(error.exit_code)\n"
    )

    def fetch(server: Hub) -> subprocess.CompletedProcess[str]:
        home = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": server.address, "HF_HUB_OFFLINE": "0"}
        quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        return subprocess.run(
            [sys.executable, "-c", code], env=os.environ | home | quiet, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip

    with Hub(fault) as server:
        broken = fetch(server)
    assert broken.returncode == 2, broken.stderr
    (line,) = [line for line in broken.stderr.splitlines() if "checkpoint" in line]
    assert line.startswith("the checkpoint somebody/small could not be fetched")
    assert SAID[fault] in line
    assert "Traceback" not in broken.stderr
    assert not list((tmp_path / "hf").rglob("model.safetensors"))
    if fault != "cut":
        return
    with Hub(None) as server:  # what was fetched before the cut is gone on from
        whole = fetch(server)
    assert whole.returncode == 0, whole.stderr
    assert (Path(whole.stdout.strip()) / "model.safetensors").read_bytes() == server.files["model.safetensors"]
