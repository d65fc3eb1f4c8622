"""Real builds of one family: what is documented wrongly is found, and a record is the same each time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_families import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def families(tmp_path: Path) -> Path:
    """A copy of `phimoe` and of what it extends."""
    folder = tmp_path / "families"
    for path in (ROOT / "families").rglob("*"):
        if path.is_file() and path.relative_to(ROOT / "families").parts[0] in ("phimoe", "llama", "vocabulary.yml"):
            target = folder / path.relative_to(ROOT / "families")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    spec = folder / "phimoe" / "family.yml"  # one public checkpoint will do
    spec.write_text(re.sub(r"  - id: microsoft/Phi-mini.*?(?=^values:)", "", spec.read_text(), flags=re.S | re.M))
    return folder


def build(families: Path, *options: str) -> subprocess.CompletedProcess[str]:
    home = families.parent / "home"
    return subprocess.run(
        [sys.executable, "-m", "nnpedia.cli", "build", "phimoe", "--families", str(families), *options],
        cwd=families.parent, env=os.environ | {"NNPEDIA_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def records(families: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in families.parent.glob("home/records/phimoe/*.json")}


def change(path: Path, old: str, new: str) -> int:
    """Change a file, and say on which line."""
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def test_the_same_inputs_give_the_same_bytes(families: Path) -> None:
    built = build(families)
    assert built.returncode == 0, built.stderr
    first = records(families)
    assert any(name.startswith("run-") for name in first)
    assert any(name.startswith("reference-") for name in first)
    assert build(families, "--force").returncode == 0
    assert records(families) == first


def test_a_wrong_address_is_found(families: Path) -> None:
    line = change(families / "phimoe" / "family.yml", "experts.args[2]", "experts.args[1]")
    built = build(families)
    assert built.returncode == 1
    assert "Traceback (most recent call last)" not in built.stderr
    found = told(built, range(line - 1, line + 1))
    assert any("expert_weights" in text for text in found), built.stderr
    assert "law experts" in built.stderr


def test_a_wrong_layout_names_both_shapes(families: Path) -> None:
    line = change(families / "phimoe" / "family.yml", "experts.args[1]", "router.input")
    built = build(families)
    assert built.returncode == 1
    assert any(
        "expert_indices is ExpertIndices [" in text and "but the tensor there is [" in text
        for text in told(built, range(line - 1, line + 1))
    ), built.stderr


def told(built: subprocess.CompletedProcess[str], lines: range) -> list[str]:
    """What was said of these lines of the spec: a value's, and its address's just below it."""
    heads = tuple(f"families/phimoe/family.yml:{line}: " for line in lines)
    return [text for text in built.stderr.splitlines() if text.startswith(heads)]


def test_an_address_that_does_not_resolve_names_what_is_there(families: Path) -> None:
    spec = families / "phimoe" / "family.yml"
    line = change(spec, "router@forward_0.output", "router@forwrad_0.output")
    built = build(families)
    assert built.returncode in (1, 2)
    assert any("forward_0" in text for text in told(built, range(line - 1, line + 1))), built.stderr


def test_a_wrong_number_in_the_notes_is_found(families: Path) -> None:
    line = change(families / "phimoe" / "notes.md", "0.5025, 1.0]), atol", "0.6025, 1.0]), atol")
    built = build(families)
    assert built.returncode == 1
    found = [text for text in built.stderr.splitlines() if text.startswith("families/phimoe/notes.md:")]
    assert [text.partition(" ")[0] for text in found] == [f"families/phimoe/notes.md:{line}:"]
