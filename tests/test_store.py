"""The cache of checkpoints: built once, whole or not at all, and rebuilt when it is damaged."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from nnpedia.checkpoints import store
from nnpedia.errors import CheckpointError


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path))
    return tmp_path / "checkpoints"


class Builder:
    """Writes two files, slowly, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, folder: Path) -> dict[str, Any]:
        self.times += 1
        (folder / "weights").write_bytes(b"w" * 1000)
        time.sleep(0.05)
        (folder / "config").write_text("{}")
        return {"seed": 1}


def test_a_folder_is_built_once_even_when_many_want_it(cache_home: Path) -> None:
    build = Builder()
    threads = [threading.Thread(target=store.kept, args=("x", build)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.times == 1
    assert sorted(path.name for path in (cache_home / "x").iterdir()) == ["config", "manifest.json", "weights"]


def test_a_failed_build_leaves_nothing_and_the_next_one_works(cache_home: Path) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        (folder / "weights").write_bytes(b"half")
        raise CheckpointError("no")

    with pytest.raises(CheckpointError):
        store.kept("x", fail)
    assert [path.name for path in cache_home.iterdir() if not path.name.endswith(".lock")] == []
    (cache_home / ".x.partial").mkdir()  # what a killed process leaves
    (cache_home / ".x.partial" / "weights").write_bytes(b"half")
    assert (store.kept("x", Builder()) / "weights").stat().st_size == 1000
    assert not (cache_home / ".x.partial").exists()


@pytest.mark.parametrize("content", [b"w" * 999, b"v" * 1000, None])
def test_a_damaged_folder_is_built_anew(cache_home: Path, content: bytes | None) -> None:
    build = Builder()
    weights = store.kept("x", build) / "weights"
    before = weights.stat()
    if content is None:
        weights.unlink()
    else:
        weights.write_bytes(content)
        same_size = len(content) == before.st_size  # then only the time tells; else the size does, whatever the time
        os.utime(weights, ns=(1, 1) if same_size else (before.st_atime_ns, before.st_mtime_ns))
    assert store.kept("x", build) == cache_home / "x"
    assert build.times == 2
    assert weights.read_bytes() == b"w" * 1000


def test_a_copied_folder_is_hashed_once_and_kept(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder()
    weights = store.kept("x", build) / "weights"
    os.utime(weights, (1, 1))
    store.kept("x", build)
    monkeypatch.setattr(store, "sha256", lambda path: pytest.fail("hashed again"))
    store.kept("x", build)
    assert build.times == 1
