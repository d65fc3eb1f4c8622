"""Two builds of one state are the same bytes: in another folder, on another day, with another hash seed, or after edits
of another state.
"""

from __future__ import annotations

import os
import shutil
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


def published(checkout: Path, target: Path, seed: str, day: str) -> dict[str, bytes]:
    environment = {
        "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": day, "TZ": f"UTC{seed[0]}",
        "NNPEDIA_FAMILIES": str(checkout / "families"),
    }  # fmt: skip
    run(["mkdocs", "build", "--strict", "-f", str(checkout / "mkdocs.yml"), "-d", str(target)], checkout, **environment)
    return contents(target)


@pytest.mark.slow
def test_the_site_is_the_same(checkout: Path, tmp_path: Path) -> None:
    """Made after an edit, with what is kept of the pages before it, and elsewhere from nothing."""
    kept = tmp_path / "home" / "kept"
    before = published(checkout, tmp_path / "site-1", "1", "1000000000")
    pages = contents(kept / "families")
    notes = checkout / "families" / "llama" / "notes.md"
    notes.write_text(notes.read_text().replace("## ", "A word more.\n\n## ", 1))
    after = published(checkout, tmp_path / "site-2", "1", "1000000000")
    made = [name for name, content in contents(kept / "families").items() if pages[name] != content]
    assert made == ["llama.json"]
    shutil.rmtree(kept)
    checkout = checkout.rename(tmp_path / "elsewhere")
    cold = published(checkout, tmp_path / "site-3", "77", "1700000000")
    assert len(cold) > 50
    assert cold.keys() == after.keys() == before.keys()
    assert [name for name in cold if cold[name] != after[name]] == []
    assert before["families/llama/index.html"] != after["families/llama/index.html"]
    assert b"A word more." in after["families/llama/index.html"]


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
