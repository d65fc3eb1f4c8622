"""The bench measures what it says, and its page shows what it measured. No number here is held to a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnpedia.bench import building, library, peers, results, timing
from nnpedia.bench.page import speed_pages
from nnpedia.errors import NnpediaError

ROW = {"seconds": 0.1, "ratio": 1.05, "noise": 0.01}
FOUND = {
    "machine": {"cores": 2, "system": "x", "python": "3", "torch": "2", "transformers": "5", "nnsight": "0"},
    "library": {
        "repeats": 5,
        "load": {"bare": ROW, "load": ROW | {"seconds": 0.3}},
        "lengths": {"144": {"residuals": ROW}, "9": {"residuals": ROW, "patterns": ROW}},
    },
    "peers": {
        "repeats": 5,
        "other <1>": {"skipped": "no <registry> here"},
        "third": {"lengths": {"9": {"patterns": ROW}}},
    },
    "build": {
        "served": 4.4,
        "edits": {"nothing_changed": 1.0, "notes_edited": 9.0, "rendered": 8.0},
        "cold": [
            {
                "families": count,
                "workers": workers,
                "units": 5 * count,
                "seconds": 10.0 * count / workers,
                "peak_memory": 2**30,
            }
            for count in (4, 1, 2)
            for workers in (2, 1)
        ],
    },
}


def test_tasks_are_measured_in_turn_and_against_the_base_of_their_round() -> None:
    order: list[str] = []
    seconds = timing.in_turn({name: lambda name=name: order.append(name) for name in ("bare", "a", "b")}, 3)
    assert {name: len(samples) for name, samples in seconds.items()} == {"bare": 3, "a": 3, "b": 3}
    assert sorted(order[:3]) == sorted(order[3:6]) == ["a", "b", "bare"]
    assert order[6:9] != order[9:12]
    said = timing.against([1.0, 2.0, 4.0, 8.0], [2.0, 4.0, 8.0, 16.0])
    assert said == {"seconds": 6.0, "ratio": 2.0, "noise": 0.0}


def test_the_library_is_measured_on_a_small_model() -> None:
    found = library.measure("llama:forge", (3,), 3)
    assert set(found["lengths"]["3"]) == {
        "bare", "residuals", "patterns", "residuals_one_by_one", "patterns_one_by_one",
    }  # fmt: skip
    assert found["lengths"]["3"]["bare"]["ratio"] == 1
    assert 0 < found["lengths"]["3"]["residuals"]["ratio"] < 20
    assert found["load"]["load"]["seconds"] > 0


def test_a_peer_that_cannot_be_had_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(peers.Absent):
        peers.measure(peers.PEERS[0], tmp_path, "nowhere", 1, (3,))


def test_the_page_shows_what_was_measured_and_is_not_there_without(tmp_path: Path) -> None:
    assert speed_pages(tmp_path) == []
    path = results.path_of(tmp_path)
    path.parent.mkdir()
    path.write_text(json.dumps(FOUND))
    [page] = speed_pages(tmp_path)
    assert page.uri == "speed.md"
    assert page.html.count("1.05 ± 0.01") == 4
    assert page.html.count("<circle") == 6
    assert "other &lt;1&gt; is not measured here: no &lt;registry&gt; here" in page.html
    assert "0.30" in page.html  # the load
    assert "0.20" in page.html  # of which over from_pretrained
    assert "the line is 1.00 s a record. The build of" in page.html
    assert "<td>2</td><td>4</td><td>20</td><td>20.0</td><td>" in page.html
    assert "<code>make serve</code> shows it</th><td>4.4 s" in page.html
    assert speed_pages(tmp_path) == [page]
    path.write_text("{")
    with pytest.raises(NnpediaError, match="bench"):
        speed_pages(tmp_path)


def test_rows_come_by_length_and_ours_first() -> None:
    said = [(row.tokens, row.what, row.who) for row in results.library_rows(FOUND)]
    assert said == [
        (9, "all residuals", "nnpedia"),
        (9, "all patterns", "nnpedia"),
        (9, "all patterns", "third"),
        (144, "all residuals", "nnpedia"),
    ]


def test_a_build_that_grows_linearly_is_a_straight_line() -> None:
    drawn = results.plot(FOUND["build"]["cold"])  # type: ignore[index]
    assert drawn is not None
    assert [line.workers for line in drawn.lines] == [1, 2]
    for line in drawn.lines:
        (x1, y1), _, (x4, y4) = line.points
        ground = results.HEIGHT - results.BOTTOM
        assert line.ends == [pytest.approx((results.LEFT, ground)), pytest.approx((x4, y4))]
        assert (ground - y4) / (x4 - results.LEFT) == pytest.approx((ground - y1) / (x1 - results.LEFT))
    assert results.plot([]) is None


def test_a_build_that_does_not_grow_linearly_is_said_to_be_off() -> None:
    assert results.fitted([(1, 1.0), (2, 2.0)]) is None
    straight = results.fitted([(1, 3.0), (2, 5.0), (4, 9.0)])
    assert straight is not None
    assert (straight.start, straight.each) == pytest.approx((1, 2))
    curved = results.plot([built(1, 1.0), built(2, 4.0), built(4, 16.0), built(8, 64.0)])
    assert curved is not None
    [line] = curved.lines
    assert line.least_fitting["units"] == 1
    assert abs(line.share(line.least_fitting)) > 0.5
    assert line.farthest["units"] == 4


def test_builds_are_shown_by_the_records_they_make() -> None:
    """Families differ in how many they have: here the second has four times the first's, at one cost a record."""
    drawn = results.plot([built(1, 2.0, families=1), built(5, 10.0, families=2), built(6, 12.0, families=3)])
    assert drawn is not None
    [line] = drawn.lines
    assert [line.fit.off(run) for run in line.runs if line.fit] == pytest.approx([0, 0, 0])
    assert [number for _, number in drawn.families] == [1, 2, 3]
    assert results.plot([{"families": 1, "workers": 1, "seconds": 2.0}]) is None


def built(units: int, seconds: float, families: int = 1) -> dict[str, Any]:
    return {"families": families, "workers": 1, "units": units, "seconds": seconds}


def test_a_task_that_has_no_title_goes_by_its_name() -> None:
    lengths = {"9": {"bare": ROW, "new_task": ROW, "patterns": ROW}}
    assert [row.what for row in results.library_rows({"library": {"lengths": lengths}})] == ["all patterns", "new task"]


def test_a_cold_build_is_of_as_many_families_as_there_are_at_most() -> None:
    assert building.counts_of(31, []) == [1, 2, 4, 8, 16, 31]
    assert building.counts_of(52, [52, 4, 60]) == [4, 52]


def test_what_an_earlier_run_measured_is_kept_unless_it_is_measured_again() -> None:
    first = building.merged([], {"families": 4, "workers": 2, "seconds": 9.0})
    second = building.merged(first, {"families": 2, "workers": 2, "seconds": 5.0})
    again = building.merged(second, {"families": 4, "workers": 2, "seconds": 8.0})
    assert [(run["families"], run["seconds"]) for run in again] == [(2, 5.0), (4, 8.0)]


def test_an_edit_of_the_bench_is_taken_back(tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("One.\n")
    with building.edited(notes, "Two."):
        assert notes.read_text() == "One.\n\nTwo.\n"
    assert notes.read_text() == "One.\n"
