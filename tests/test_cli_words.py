"""What the command line says of itself: options that explain themselves, and nothing printed that nobody asked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from test_cli import ROOT, Run, families, run  # noqa: F401  fixtures

from nnpedia import cli


def said(text: str) -> str:
    return " ".join(text.split())


def test_what_a_folder_of_families_needs_is_said_where_it_is_asked_for(run: Run, tmp_path: Path) -> None:  # noqa: F811
    assert "a vocabulary.yml, and a folder for each family and each it extends" in said(run("check", "--help").out)
    ended = run("check", "--families", tmp_path)
    assert ended.code == 2
    assert "copy the encyclopedia's there, and beside it the folder of each family that another extends" in ended.line


@pytest.mark.parametrize("names", [("llama", "mistral"), ("mistral",)], ids=len)
def test_a_folder_with_what_it_needs_is_enough(run: Run, tmp_path: Path, names: tuple[str, ...]) -> None:  # noqa: F811
    shutil.copy(ROOT / "families/vocabulary.yml", tmp_path)
    for name in names:
        shutil.copytree(ROOT / "families" / name, tmp_path / name)
    ended = run("check", "--families", tmp_path)
    if "llama" in names:
        assert (ended.out, ended.err) == ("2 families checked, 0 wrong\n", "")
    else:
        assert "llama" in ended.line


def test_every_option_says_what_it_does() -> None:
    commands: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        for option in command.params:
            assert option.help, f"nnpedia {name}: {option.name}"


def test_snippets_that_are_chosen_run_without_a_warning() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nnpedia.cli", "test", "gpt2", "-k", "padded"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert "arning" not in ended.stdout + ended.stderr


def test_rosetta_compares_again_when_told_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """And asks for no progress bars where nobody watches them."""
    import os

    from nnpedia.rosetta import check, record

    checked: list[str] = []

    def compare(family: Any, version: str) -> Any:
        checked.append(family.family)
        assert os.environ["TQDM_DISABLE"] == "1"
        return SimpleNamespace(version=version, rows=[], reason=None)

    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(check, "installed", lambda: "3.0")
    monkeypatch.setattr(check, "check", compare)
    monkeypatch.setattr(record, "load", lambda *given: SimpleNamespace(version="3.0", rows=[], reason=None))
    monkeypatch.setattr(record, "store", lambda *given: None)
    assert run("rosetta", "gpt2").out == "gpt2: 0 of 0 places hold the value\n"
    assert checked == []
    run("rosetta", "gpt2", "--force")
    assert checked == ["gpt2"]


def test_support_names_the_blocks_where_only_some_have_a_value(run: Run) -> None:  # noqa: F811
    lines = dict(line.split(None, 1) for line in run("support", "qwen3_next:forge").out.splitlines())
    assert lines["layers.layer_output"] == "yes"
    assert lines["self_attn.attention_queries"] == "yes, on layer 3"
    assert lines["linear_attn.keys"] == "yes, on layers 0, 1, 2"
