"""A family that is younger than the transformers here says so as data, and costs the others nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_families import copy_families

from nnpedia import StandardizedTransformer, cli, family, infostring, moves, publish, work
from nnpedia.errors import SpecError, UnknownFamily
from nnpedia.family import load_families, load_family, read_anew
from nnpedia.fences import read_document

LINE = "gpt2 needs transformers 5.24 or newer, and 5.23.1 is installed"


@pytest.fixture
def families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two families, of which gpt2 came with 5.24; 5.23.1 is installed."""
    copied = copy_families(tmp_path / "families")
    spec = copied / "gpt2" / "family.yml"
    spec.write_text('since: "5.24"\n' + spec.read_text())
    for module in (family, infostring):
        monkeypatch.setattr(module, "installed", lambda package, otherwise="none": "5.23.1")
    monkeypatch.setenv("NNPEDIA_FAMILIES", str(copied))
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "cache"))
    read_anew()
    return copied


def test_a_build_leaves_it_out_and_makes_the_others(families: Path, tmp_path: Path) -> None:
    said: list[str] = []
    outcomes = work.build(produce="crashing:sample", on_event=lambda event: said.append(event.text))
    assert {(outcome.unit.family, outcome.status) for outcome in outcomes if outcome.unit.kind != "page"} == {
        ("llama", "built")
    }
    assert f"gpt2 is left out: it {LINE.removeprefix('gpt2 ')}" in said
    assert publish.families_without_records() == []
    with pytest.raises(UnknownFamily, match=LINE) as raised:
        work.build(["gpt2"], produce="crashing:sample")
    assert raised.value.exit_code == 2


def test_loading_it_is_one_line(families: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    for checkpoint in (folder, "gpt2:forge"):
        with pytest.raises(UnknownFamily, match=LINE) as raised:
            StandardizedTransformer(checkpoint)
        assert "\n" not in str(raised.value)


def test_a_list_and_the_page_versions_tell_of_it(families: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.app(["families"], standalone_mode=False)
    listed = capsys.readouterr().out.splitlines()
    assert [line for line in listed if LINE.removeprefix("gpt2 ") in line] == [listed[0]]
    assert listed[0].startswith("gpt2")
    assert moves.younger(list(load_families(families).values())) == [moves.Told("gpt2", "since 5.24")]


@pytest.mark.parametrize(
    ("since", "complaint"),
    [
        ('"5.30"', "since 5.30 is not within the releases of transformers"),
        ('"4.0"', "a family that all of them have says nothing of it"),
        ("5.20", "a version is written in quotes"),
        ('"new"', "should match pattern"),
    ],
)
def test_a_wrong_release_is_one_line_at_its_place(families: Path, since: str, complaint: str) -> None:
    spec = families / "gpt2" / "family.yml"
    spec.write_text(spec.read_text().replace('since: "5.24"', f"since: {since}"))
    line = next(number for number, text in enumerate(spec.read_text().splitlines(), 1) if text.startswith("since"))
    with pytest.raises(SpecError, match=complaint) as raised:
        load_family(families / "gpt2")
    assert f"gpt2/family.yml:{line}:" in str(raised.value)


NOTES = "## Old\n\n```python until=5.24\na = 1\nassert a\n```\n\n## New\n\n```python since=5.24\nb = 1\nassert b\n```\n"


def test_a_snippet_runs_on_the_releases_it_is_told_for(families: Path) -> None:
    notes = families / "llama" / "notes.md"
    notes.write_text(
        NOTES + "\n```python continues\nassert b == 1\n```\n\n```python continues until=5.24\nassert a\n```\n"
    )
    old, new, after, last = read_document(notes).fences
    assert (old.runs, old.problem, new.runs, new.problem) == (True, None, False, None)
    assert new.reason == "it is told for transformers since 5.24, and 5.23.1 is installed"
    assert (after.runs, after.problem, after.reason) == (False, None, new.reason)  # what it continues does not run
    assert (last.runs, last.reason) == (False, new.reason)
    found = moves.noted(list(load_families(families).values()))
    assert found[:2] == [
        moves.Told("llama", "before 5.24", "Old", "old"),
        moves.Told("llama", "since 5.24", "New", "new"),
    ]


@pytest.mark.parametrize(
    ("info", "complaint"),
    [
        ("since=new", "since is a release of transformers, such as 5.24, not 'new'"),
        ("since=5.24 until=5.23", "since 5.24 is not before until 5.23"),
        ("untill=5.24", "did you mean 'until'?"),
    ],
)
def test_a_wrong_release_of_a_snippet_is_its_problem(info: str, complaint: str) -> None:
    (fence,) = read_document("x.md", f"```python {info}\nassert True\n```\n").fences
    assert complaint in str(fence.problem)
    assert not fence.runs
