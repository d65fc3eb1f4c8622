"""Shared by all tests: where they keep things, and what may not be skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sample_records as samples
from browsing import browser, public, site, visiting  # noqa: F401  fixtures

ROOT = Path(__file__).parent.parent


def pytest_configure() -> None:
    """Tests use the checkout's cache, so that a checkpoint converted once stays converted."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("NNPEDIA_HOME", str(ROOT / ".nnpedia"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def home() -> Path:
    """The cache folder that checkpoints are kept in."""
    from nnpedia.cache import home

    return home()


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """One torch thread: small models are quicker so, and results repeat to the bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _must_run(item: pytest.Item) -> bool:
    return bool(os.environ.get("CI")) and item.get_closest_marker("browser") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Where CI is set, a browser test that is skipped has failed."""
    report = yield
    if report.skipped and _must_run(item):
        report.outcome = "failed"
        report.longrepr = f"skipped, and a browser test may not be: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """Where CI is set, a whole module that skips itself has failed too."""
    report = yield
    if os.environ.get("CI") and report.skipped:
        report.outcome = "failed"
    return report


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a site is made from, with two families built."""
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("families", "templates", "site"):
        shutil.copytree(ROOT / name, root / name)
    (root / "build/nnpedia").mkdir(parents=True)
    shutil.copy(ROOT / "build/nnpedia/hook.py", root / "build/nnpedia/hook.py")
    shutil.copy(ROOT / "mkdocs.yml", root / "mkdocs.yml")
    for folder in sorted((root / "families").glob("*/")):
        if folder.name not in ("llama", "phimoe"):
            shutil.rmtree(folder)
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NNPEDIA_FAMILIES", str(root / "families"))
    samples.write_built(tmp_path / "home", root)
    return root
