"""The diagram of a block: every value once, in the order of the stream, and nothing over anything else."""

from __future__ import annotations

import pytest
import sample_records as samples

from nnpedia import diagram, shapes
from nnpedia.entry import Entry


@pytest.fixture(scope="module")
def phimoe() -> Entry:
    return samples.entry(samples.FAMILIES / "phimoe")


def chips(entry: Entry) -> dict[str, shapes.Chip]:
    (drawn,) = diagram.diagrams(entry.references[0])
    return {chip.value.name: chip for chip in drawn.chips}


def test_the_diagram_shows_every_value_of_the_block_once(phimoe: Entry) -> None:
    (drawn,) = diagram.diagrams(phimoe.references[0])
    names = [chip.value.name for chip in drawn.chips]
    block = {fact.name for fact in phimoe.references[0].values if fact.host != "model" and fact.absent is None}
    assert set(names) == block
    assert len(names) == len(set(names))


def test_nothing_in_the_diagram_overlaps_or_leaves_it(phimoe: Entry) -> None:
    (drawn,) = diagram.diagrams(phimoe.references[0])
    boxes = [(chip.x, chip.y, chip.right, chip.y + shapes.HEIGHT) for chip in drawn.chips]
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= shapes.WIDTH
        assert bottom <= drawn.height
        for other in boxes[index + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_the_stream_runs_from_input_to_output(phimoe: Entry) -> None:
    found = chips(phimoe)
    order = [
        "layer_input",
        "attention_norm_output",
        "attention_output",
        "layer_mid",
        "mlp_norm_output",
        "mlp_output",
        "layer_output",
    ]
    heights = [found[name].y for name in order]
    assert heights == sorted(heights)


def test_without_a_middle_the_mlp_branches_off_the_input(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    values = [
        value.model_copy(update={"absent": "both are added at once"}) if value.name == "layer_mid" else value
        for value in reference.values
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"values": values}))
    assert any(f"H{shapes.BYPASS}" in line for line in drawn.lines)
    assert "layer_mid" not in [chip.value.name for chip in drawn.chips]


def test_a_norm_that_feeds_both_sublayers_is_where_the_mlp_branches_off(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    values = [
        value.model_copy(update={"absent": "one norm"}) if value.name in ("layer_mid", "mlp_norm_output") else value
        for value in reference.values
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"values": values}))
    norm = next(chip for chip in drawn.chips if chip.value.name == "attention_norm_output")
    (branch,) = [line for line in drawn.lines if f"H{shapes.BYPASS}" in line]
    assert branch.startswith(f"M{norm.x + 8} {norm.y + shapes.HEIGHT} ")


def test_kinds_that_look_alike_are_drawn_once(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    kind = reference.kinds[0]
    kinds = [
        kind.model_copy(update={"name": "full", "layers": [1]}),
        kind.model_copy(update={"name": "sliding", "layers": [0]}),
    ]
    (drawn,) = diagram.diagrams(reference.model_copy(update={"kinds": kinds}))
    assert drawn.kinds == ["full", "sliding"]


@pytest.mark.parametrize(("experts", "chosen"), [(0, 0), (1, 1), (16, 2), (128, 8), (512, 10), (8, 8)])
def test_as_many_experts_are_filled_as_a_token_is_sent_to(experts: int, chosen: int) -> None:
    cells = shapes.expert_cells(experts, chosen)
    assert len(cells) == min(experts, 256)
    if experts <= 256:
        assert sum(cell[3] for cell in cells) == chosen
    assert all(x + side < shapes.RIGHT - shapes.LEFT - 20 for x, _, side, _ in cells)
