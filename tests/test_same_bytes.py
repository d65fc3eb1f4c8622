"""Two builds of one state are the same bytes: in another folder, on another day, with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(arguments: list[str], folder: Path, **environment: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build"), "NO_MKDOCS_2_WARNING": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_site_is_the_same(checkout: Path, tmp_path: Path) -> None:
    sites = []
    for seed, day in (("1", "1000000000"), ("77", "1700000000")):
        checkout = checkout.rename(tmp_path / f"checkout-{seed}")
        environment = {
            "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": day, "TZ": f"UTC{seed[0]}",
            "NNPEDIA_FAMILIES": str(checkout / "families"),
        }  # fmt: skip
        target = tmp_path / f"site-{seed}"
        run(
            ["mkdocs", "build", "--strict", "-f", str(checkout / "mkdocs.yml"), "-d", str(target)],
            checkout,
            **environment,
        )
        sites.append(contents(target))
    assert len(sites[0]) > 50
    assert sites[0].keys() == sites[1].keys()
    assert [name for name in sites[0] if sites[0][name] != sites[1][name]] == []


@pytest.mark.slow
def test_records_are_the_same(tmp_path: Path) -> None:
    """A mixture's: experts, routers and sets of names are where an order could slip in."""
    made = []
    for seed in ("1", "77"):
        home = tmp_path / f"home-{seed}"
        run(
            ["nnpedia.cli", "build", "olmoe", "--no-site", "--workers", seed[0]], tmp_path,
            PYTHONHASHSEED=seed, NNPEDIA_HOME=str(home), NNPEDIA_FAMILIES=str(ROOT / "families"),
        )  # fmt: skip
        made.append(contents(home / "records"))
    assert any("/run-" in name for name in made[0])
    assert made[0] == made[1]
