"""The page Versions says of every place that moved where it is and where it was, and of whom."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from nnpedia.cache import families_folder
from nnpedia.family import load_families, load_family
from nnpedia.moves import Move, moves, noted
from nnpedia.vocabulary import load_vocabulary


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """llama, whose pattern moved, and gpt2, which extends it."""
    shutil.copy(families_folder() / "vocabulary.yml", tmp_path)
    for name in ("llama", "gpt2"):
        shutil.copytree(families_folder() / name, tmp_path / name)
    file = tmp_path / "llama" / "family.yml"
    spec = yaml.safe_load(file.read_text())
    spec["values"] = {"self_attn": {"attention_output": {"moved": [{"until": "5.23", "at": "output"}]}}}
    spec["laws"] = {"layers": {"residual_sum": {"moved": [{"since": "5.22", "until": "5.23", "exception": "so"}]}}}
    file.write_text(yaml.safe_dump(spec, sort_keys=False))
    return tmp_path


def test_moves_are_told_once_for_all_families_that_share_them(two: Path) -> None:
    found = {(move.host, move.name): move for move in moves(list(load_families(two).values()))}
    measured = load_family(two / "llama", (), load_vocabulary(two).versions["transformers"].measured)
    now = measured.values["self_attn"]["attention_output"].at
    output = found["self_attn", "attention_output"]
    assert output == Move("self_attn", "attention_output", False, "before 5.23", "output", str(now), output.families)
    assert "llama" in output.families
    law = found["layers", "residual_sum"]
    assert (law.law, law.when, law.then) == (True, "since 5.22, before 5.23", "does not hold: so")
    assert law.now == measured.laws["layers"]["residual_sum"].formula


def test_a_law_does_not_hold_where_that_is_said(two: Path) -> None:
    on = {
        release: load_family(two / "llama", (), release).laws["layers"]["residual_sum"] for release in ("5.21", "5.22")
    }
    assert on["5.22"].exception == "so"
    assert on["5.21"].exception is None


def test_a_section_of_notes_is_told_once_however_many_of_its_snippets_are_of_some_releases(two: Path) -> None:
    notes = two / "gpt2" / "notes.md"
    fence = "```python since=5.23\nassert prompt\n```\n\n"
    notes.write_text(f"## Of the newer ones\n\n{fence}{fence}## Of all\n\n```python\nassert prompt\n```\n")
    told = noted([load_family(two / "gpt2")])
    assert [(each.family, each.when, each.section) for each in told] == [("gpt2", "since 5.23", "Of the newer ones")]
