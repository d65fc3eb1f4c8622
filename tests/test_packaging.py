"""The wheel, installed elsewhere, carries its families and works without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("nnpedia-*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel in it; what nnpedia depends on is lent from this one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", with_pip=False)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    python = str(folder / "venv" / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # a folder lent this way does not have its own .pth files read, so the editable install stays out
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder


def nnpedia(elsewhere: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NNPEDIA", "PYTHON"))}
    environment |= {"NNPEDIA_HOME": str(elsewhere / "home"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [str(elsewhere / "venv" / "bin" / "nnpedia"), *arguments],
        cwd=elsewhere, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_wheel_carries_what_it_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    families = {path.parent.name for path in (ROOT / "families").glob("*/family.yml")}
    for name in families:
        assert f"nnpedia/families/{name}/family.yml" in names
        assert f"nnpedia/families/{name}/notes.md" in names
    assert {"nnpedia/families/vocabulary.yml", "nnpedia/families/badges.yml", "nnpedia/py.typed"} <= names
    assert {f"nnpedia/templates/{path.name}" for path in (ROOT / "templates").glob("*.html")} <= names
    assert not any(part in name for name in names for part in (".nnpedia", "__pycache__", "tests/", "site/"))


def test_it_lists_and_checks_its_families_elsewhere(elsewhere: Path) -> None:
    listed = nnpedia(elsewhere, "families", "--json")
    assert listed.returncode == 0, listed.stderr
    there = {path.parent.name for path in (ROOT / "families").glob("*/family.yml")}
    assert {family["family"] for family in json.loads(listed.stdout)} == there
    checked = nnpedia(elsewhere, "check")
    assert checked.returncode == 0, checked.stderr


def test_it_builds_phimoe_elsewhere(elsewhere: Path) -> None:
    built = nnpedia(elsewhere, "build", "phimoe")
    assert built.returncode == 0, built.stderr
    assert list((elsewhere / "home" / "records" / "phimoe").glob("run-*.json"))
    assert str(ROOT) not in next((elsewhere / "home" / "records" / "phimoe").glob("run-*.json")).read_text()
    refused = nnpedia(elsewhere, "build", "--site")
    assert (refused.returncode, "use --no-site" in refused.stderr) == (2, True)
