"""What a reader who translates would be wronged by: a place called the same that holds something else."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_records as samples
import torch

from nnpedia import pages
from nnpedia.badges import load_badges
from nnpedia.family import load_family
from nnpedia.rosetta import record, table
from nnpedia.rosetta.check import Check
from nnpedia.rosetta.compare import compared
from nnpedia.rosetta.record import Checked, Row
from nnpedia.translation import Library, Place

FAMILIES = samples.FAMILIES
QUERIES = ("batch", "num_heads", "seq", "qk_head_dim")
PATTERN = ("batch", "num_heads", "query", "key")


def test_the_same_numbers_are_told_from_other_ones() -> None:
    ours = torch.randn(1, 3, 5, 4)
    assert compared(ours, ours.clone(), QUERIES).how == ""
    assert compared(ours, ours.transpose(1, 2), QUERIES).how == "laid out as [batch seq num_heads qk_head_dim]"
    assert compared(ours, ours.repeat_interleave(2, 1), QUERIES).how is not None
    assert compared(ours, ours.repeat(1, 2, 1, 1), QUERIES).how is None  # the heads in another order
    assert compared(ours, ours * 12, QUERIES).how == "times 12"
    other = ours.clone()
    other[0, 1, 2, 3] += 0.01
    assert compared(ours, other, QUERIES).how is None
    assert compared(ours, torch.randn(2, 2), QUERIES).share is None


def test_a_masked_score_is_masked_on_both_sides_or_said_to_come_before_the_mask() -> None:
    scores = torch.randn(1, 2, 4, 4)
    masked = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), torch.finfo(torch.float32).min)
    low = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    assert compared(masked, low, PATTERN).how == ""
    assert compared(masked, scores, PATTERN).how == "before the mask is added"
    assert compared(masked, low.softmax(-1), PATTERN).how is None


OURS = {
    (0, "layers", "layer_input"): torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)),
    (0, "layers", "layer_output"): torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1)),
}


def verdict(theirs: dict[str, torch.Tensor]) -> Row:
    """What is found of a place for layer_input, on a model with two values."""
    places = {"layers": {"layer_input": [Place(name="blocks.{n}.hook")]}}
    names = Library(title="X", version="1", layer="{n}", values=places)
    (row,) = Check(load_family(FAMILIES / "phimoe"), names, OURS, theirs, {}).rows()
    return row


def test_a_place_that_holds_another_value_says_which() -> None:
    entering, leaving = OURS.values()
    same = verdict({"blocks.0.hook": entering.clone()})
    assert (same.verdict, same.error, same.blocks) == ("equal", 0.0, 1)
    other = verdict({"blocks.0.hook": leaving.clone()})
    assert (other.verdict, other.how) == ("differs", "holds layers.layer_output")
    assert verdict({"blocks.0.hook": torch.ones(2, 2)}).how == "a tensor of another shape, [2, 2]"
    assert verdict({"blocks.1.hook": entering}).verdict == "missing"


def checked(**changes: object) -> Checked:
    family = load_family(FAMILIES / "phimoe")
    key = record.key(family, "transformer_lens", "4.3.0")
    said = {"key": key, "library": "transformer_lens", "version": "4.3.0", "family": "phimoe", "checkpoint": "forge"}
    return Checked.model_validate({**said, **changes})


ROW = Row(
    host="layers", name="layer_input", place="blocks.{layer}.hook_resid_pre", verdict="equal", error=0.0, blocks=4
)


def test_a_check_of_other_inputs_counts_as_none(tmp_path: Path) -> None:
    family = load_family(FAMILIES / "phimoe")
    record.store(tmp_path, checked(rows=[ROW]))
    assert record.load(tmp_path, family, "transformer_lens") == checked(rows=[ROW])
    record.store(tmp_path, checked(rows=[ROW], key="0" * 64))
    assert record.load(tmp_path, family, "transformer_lens") is None


@pytest.mark.parametrize(("rows", "says"), [([ROW], "the same, exact"), ([], "unchecked")])
def test_the_page_says_what_was_checked_and_what_was_not(tmp_path: Path, rows: list[Row], says: str) -> None:
    if rows:
        record.store(tmp_path, checked(rows=rows))
    made = table.table(samples.entry(FAMILIES / "phimoe"), tmp_path)
    (line,) = [line for line in made.lines if line.row.fact.name == "layer_input"]
    assert line.native == "model.layers.{i} input"
    assert line.cells["transformer_lens"][0].told == says
    assert {cell.told for cell in line.cells["nnterp"]} == {"unchecked"}
    html = pages.family_page(samples.entry(FAMILIES / "phimoe"), load_badges(FAMILIES), {}, made).html
    assert says in str(html)
    assert 'id="rosetta"' in str(html)
