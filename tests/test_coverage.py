"""The coverage table: what its rows were measured with, families written since, and that it repeats."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_families import copy_families

from nnpedia.cache import PACKAGE
from nnpedia.draft import collecting
from nnpedia.draft.coverage import Row, Table, inputs_of, read_table, since, write_table
from nnpedia.errors import SpecError

ROOT = Path(__file__).parent.parent
FAMILIES = ROOT / "families"
#: Quick to draft and unlike each other: complete, drafted, not yet, and a family that is hidden.
SAMPLE = ("biogpt", "gpt_neox_japanese", "beam", "gpt2")


def score(name: str) -> Row:
    return {
        "family": name, "extends": "llama", "names": [1, 2], "values": [3, 4], "badges": [5, 6], "wrong": [],
        "missing": [], "partly": [], "name_faults": [], "lacking": [], "added": [], "problems": [], "cause": None,
    }  # fmt: skip


def cover(name: str, state: str = "complete") -> Row:
    return {
        "architecture": "XForCausalLM", "extends": "llama", "proven": 3, "todo": 0, "laws": 2, "untold": 0,
        "problems": 0, "full_size": "", "model_type": name, "why": "", "state": state,
    }  # fmt: skip


def page(folder: Path, described: Sequence[str]) -> str:
    from nnpedia.draft.page import coverage_page

    return coverage_page(folder, described).html


def test_a_type_that_was_written_since_stands_among_the_families(tmp_path: Path) -> None:
    write_table(Table({"gpt2": score("gpt2")}, {"olmo": cover("olmo")}), tmp_path / "coverage.json")
    assert ">olmo</span>" in page(tmp_path, ["gpt2"])
    html = page(tmp_path, ["gpt2", "olmo"])
    assert 'href="../families/olmo/"' in html
    assert "not measured yet" in html
    assert 'id="complete"' not in html


def test_a_row_says_what_has_changed_since(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path)
    now = inputs.of("gpt2", score("gpt2"))
    rows = {
        "gpt2": {**score("gpt2"), "measured": {**now, "day": "2026-11-29"}},
        "llama": {**score("llama"), "measured": {**now, "drafting": "of yore", "day": "2026-11-28"}},
    }
    write_table(Table(rows, {}), tmp_path / "coverage.json")
    html = page(tmp_path, ["gpt2", "llama"])
    assert "1 of 2 rows are up to date with all of these" in " ".join(html.split())
    assert html.count("drafting has changed since") == 1
    assert "2026-11-28" in html
    assert since("llama", score("llama"), inputs) == ["versions", "drafting", "engine", "vocabulary", "read"]
    rows["gpt2"]["measured"] |= {"drafting": "of yore"}  # then it is so of every row, and is said once
    write_table(Table(rows, {}), tmp_path / "coverage.json")
    html = page(tmp_path, ["gpt2", "llama"])
    assert "0 of 2 rows are up to date with all of these: drafting has changed since every" in " ".join(html.split())
    assert "drafting has changed since</small>" not in html


def test_what_a_row_depends_on_changes_its_digest_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "nnpedia"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    families = copy_families(tmp_path / "families")
    before = inputs_of(families, package).of("gpt2", score("gpt2"))
    for path, changed in [
        (package / "draft" / "mixing.py", {"drafting"}),
        (package / "laws.py", {"engine"}),
        (families / "vocabulary.yml", {"vocabulary"}),
        (package / "draft" / "page.py", set()),
        (package / "pages.py", set()),
        (families / "gpt2" / "notes.md", set()),
    ]:
        text = path.read_text()
        path.write_text(text + "\n# another line\n")
        after = inputs_of(families, package).of("gpt2", score("gpt2"))
        assert {name for name in before if before[name] != after[name]} == changed, path
        path.write_text(text)


def test_a_row_depends_on_the_families_it_took_from_and_an_open_one_on_what_all_offer(tmp_path: Path) -> None:
    from nnpedia.family import load_family

    families = copy_families(tmp_path / "families")
    closed = score("gpt2") | {"read": ["llama"]}
    rows = {
        "its own": ("gpt2", score("gpt2")),
        "of llama": ("gpt2", closed),
        "closed": ("x", cover("x") | {"read": ["olmo"]}),
        "open": ("x", cover("x", "drafted")),
        "open without gpt2": ("gpt2", score("gpt2") | {"missing": ["layers.layer_mid"]}),
    }

    def changed(name: str, **said: Any) -> set[str]:
        """The rows that are out of date once a family says this as well."""
        before, spec = inputs_of(families), families / name / "family.yml"
        text = spec.read_text() if spec.is_file() else (families / "llama" / "family.yml").read_text()
        spec.parent.mkdir(exist_ok=True)
        spec.write_text(yaml.safe_dump(yaml.safe_load(text) | {"family": name} | said, sort_keys=False))
        load_family.cache_clear()
        after = inputs_of(families)
        return {label for label, row in rows.items() if before.of(*row) != after.of(*row)}

    assert changed("llama", subtitle="Another.") == set()
    assert changed("other", extends="llama") == set()
    own_place = {"layers": {"layer_mid": {"at": "own.input"}}}
    assert changed("other", extends="llama", values=own_place) == {"open", "open without gpt2"}
    assert changed("under", extends="gpt2", readout="lm_head(hidden)") == {"open"}
    assert changed("llama", badges=["rmsnorm", "rotary"]) == {"of llama"}
    assert changed("gpt2", badges=["rmsnorm", "rotary"]) == {"its own", "of llama", "open without gpt2"}


def test_the_families_a_draft_took_words_of_are_its_base_and_whose_words_it_has(tmp_path: Path) -> None:
    from nnpedia.draft.depending import taken
    from nnpedia.family import load_family

    known = {name: load_family(FAMILIES / name) for name in ("llama", "gpt2", "olmo", "bloom")}
    pool, vocabulary = [known["llama"], known["bloom"]], known["llama"].vocabulary
    assert taken(known["olmo"], known["llama"], pool, vocabulary) == ["llama"]
    own = dataclasses.replace(known["llama"], laws=known["bloom"].laws)
    assert taken(own, known["llama"], pool, vocabulary) == ["llama", "bloom"]
    assert "bloom" not in taken(own, known["llama"], [known["llama"]], vocabulary)


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Measurements that only say what was asked for."""
    asked: list[str] = []

    def pretend(families: Path, names: Sequence[str], workers: int) -> Iterator[tuple[str, Row]]:
        for name in names:
            asked.append(name)
            row = score(name) if name in ("llama", "gpt2") else cover(name)
            yield name, {**row, "measured": {**inputs_of(families).of(name, row), "day": "2026-11-30"}}

    monkeypatch.setattr(collecting, "measured", pretend)
    return asked


def test_a_measurement_goes_on_where_it_was(tmp_path: Path, measuring: list[str]) -> None:
    families = copy_families(tmp_path / "families")
    names = ["gpt2", "olmo", "bloom"]
    assert list(collecting.collect(families, families, 1, names[:2]).scores) == ["gpt2"]
    table = collecting.collect(families, families, 1, names)
    assert measuring == names
    assert sorted(table.covers) == ["bloom", "olmo"]
    collecting.collect(families, families, 1, ["olmo"], again=True)
    assert measuring == [*names, "olmo"]
    assert read_table(families) == table


def test_a_family_that_was_another_type_is_measured_as_a_family(tmp_path: Path, measuring: list[str]) -> None:
    families = copy_families(tmp_path / "families")
    write_table(Table({}, {"gpt2": cover("gpt2"), "gone": cover("gone")}), families / "coverage.json")
    table = collecting.collect(families, families, 1, ["gpt2"])
    assert (list(table.scores), list(table.covers)) == (["gpt2"], ["gone"])


def test_a_name_that_is_no_model_type_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'gpt22' is neither a family"):
        collecting.collect(FAMILIES, tmp_path, 1, ["gpt22"])


def test_the_rows_that_ship_come_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of drafting: `nnpedia draft --measure` and the names of this sample, and look at what changed."""
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path))
    table = read_table(FAMILIES)
    assert table is not None
    states = {table.covers[name]["state"] for name in SAMPLE if name in table.covers}
    assert states == {"complete", "drafted", "not yet"}
    assert collecting.differing(FAMILIES, SAMPLE, 1) == []


def test_a_row_that_comes_out_otherwise_is_told(tmp_path: Path, measuring: list[str]) -> None:
    families = copy_families(tmp_path / "families")
    write_table(Table({"gpt2": score("gpt2") | {"values": [2, 4]}}, {}), families / "coverage.json")
    assert collecting.differing(families, ["gpt2"], 1) == ["gpt2: values was [2, 4] and is [3, 4]"]


def test_every_row_that_ships_reads_as_json_by_itself() -> None:
    """A row is a line, so that a change of one is a line of the difference."""
    lines = [line for line in (FAMILIES / "coverage.json").read_text().splitlines() if line.startswith("  ")]
    rows: list[Any] = [json.loads("{" + line.rstrip(",") + "}") for line in lines]
    assert len(rows) > 150
    assert all(len(row) == 1 for row in rows)
