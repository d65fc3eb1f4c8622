"""What a picture of a block shows of the laws: multipliers, gates, softcaps, skips and adds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import sample_records as samples

from nnpedia import diagram, operators
from nnpedia.entry import Entry
from nnpedia.explore import explore
from nnpedia.record import BlockKind, LawFact, ValueFact
from nnpedia.shapes import middle_of

FAMILIES = Path(__file__).parent.parent / "families"
NAMED = ("attention_scores", "attention_premix", "attention_output", "mlp_activation", "mlp_neurons", "mlp_output",
         "attention_head_outputs", "attention_queries", "attention_keys", "layer_input", "layer_mid", "layer_output",
         "routed_output", "token_embeddings")  # fmt: skip


def law(host: str, formula: str, exception: str | None = None) -> LawFact:
    return LawFact(name="one", host=host, says="It holds", formula=formula, holds=True, exception=exception)


@pytest.mark.parametrize(
    ("host", "value", "formula", "expected"),
    [
        ("mlp", "mlp_output", "down_proj(mlp_neurons) * config.residual_multiplier == mlp_output",
         [("×", "residual_multiplier", "residual_multiplier")]),
        ("mlp", "mlp_neurons", "mlp_activation * up_proj(block.mlp_input) == mlp_neurons", [("×", "up_proj", "")]),
        ("self_attn", "attention_scores",
         "unmasked(softcap(scaling * dot(attention_queries, attention_keys), config.cap), attention_scores)"
         " == unmasked(attention_scores, attention_scores)", [("×", "scaling", ""), ("ƒ", "softcap", "cap")]),
        ("self_attn", "attention_output", "o_proj(attention_premix) == attention_output", []),
        ("mlp", "mlp_output", "routed_output / config.scale == mlp_output", []),  # of a block that has no experts
    ],
)  # fmt: skip
def test_a_law_tells_what_is_done_on_the_way_to_a_value(
    host: str, value: str, formula: str, expected: list[tuple[str, str, str]]
) -> None:
    here = [name for name in NAMED if name != "routed_output"]
    found = operators.steps([law(host, formula)], host, value, here, NAMED)
    assert [(step.glyph, step.by, step.key) for step in found] == expected


def test_nothing_is_drawn_of_a_law_that_does_not_hold_here_nor_of_a_number_that_is_none() -> None:
    scaled = "down_proj(mlp_neurons) * config.factor == mlp_output"
    assert not operators.steps([law("mlp", scaled, "not so")], "mlp", "mlp_output", NAMED, NAMED)
    assert not operators.steps([law("mlp", scaled)], "mlp", "mlp_output", NAMED, NAMED, unset={"factor"})


def test_an_add_is_told_by_the_law_that_says_least_besides() -> None:
    whole = law("layers", "layer_input + self_attn.attention_output + mlp.mlp_output == layer_output")
    add = law("layers", "layer_mid + mlp.mlp_output == layer_output")
    assert operators.adding([whole, add], "mlp_output", ("layer_mid", "layer_output")) is add
    assert operators.adding([whole], "mlp_output", ("layer_mid", "layer_output")) is whole
    normed = law("layers", "input_layernorm(layer_input + self_attn.attention_output) == layer_mid")
    assert operators.norming([normed], "layer_mid") == "input_layernorm"
    assert operators.norming([add], "layer_output") == ""


def test_an_operation_stands_on_the_wire_to_its_value() -> None:
    entry = samples.entry(FAMILIES / "granite")
    (drawn,) = diagram.diagrams(entry.references[0], laws=entry.runs[0].laws)
    where = {(each.step.by, each.target.name): each for each in drawn.operators}
    chips = {chip.value.name: chip for chip in drawn.chips}
    multiplier = where["residual_multiplier", "mlp_output"]
    assert multiplier.label == "residual_multiplier"
    mlp = next(panel for panel in drawn.panels if panel.title == "mlp")
    assert mlp.y + mlp.height < multiplier.y + 6 < chips["mlp_output"].y + 6
    gate = where["up_proj", "mlp_neurons"]
    assert chips["mlp_activation"].right <= gate.x <= chips["mlp_neurons"].x
    assert [add.law for add in drawn.adds] == ["attention_add", "mlp_add"]
    order = [part.y for part in drawn.parts]
    assert len(order) == len(drawn.chips) + len(drawn.panels) + len(drawn.operators) + len(drawn.adds)
    assert max(before - after for before, after in pairwise(order)) < 20  # from the top down


def test_the_middle_of_a_path_is_that_of_its_last_stretch() -> None:
    assert middle_of("M10 20 H30") == (20, 20)
    assert middle_of("M10 20 V40 H60 V50") == (60, 45)


def kinds_of(entry: Entry, *layers: list[int]) -> Entry:
    reference = entry.references[0]
    blocks = [BlockKind(name=f"kind{index}", layers=each, hosts=samples.hosts()) for index, each in enumerate(layers)]
    return Entry(entry.family, references=[reference.model_copy(update={"kinds": blocks})], runs=entry.runs)


def test_a_picture_is_kept_once_and_each_kind_says_which_is_its_own() -> None:
    entry = kinds_of(samples.entry(FAMILIES / "phimoe"), list(range(0, 32, 2)), list(range(1, 32, 2)))
    alike = explore(entry, set())
    assert len(alike.looks) == 1
    assert [kind.look for kind in alike.choices[0].kinds] == [0, 0]

    def only_even(value: ValueFact) -> ValueFact:
        return value.model_copy(update={"layers": [0]}) if value.name == "router_logits" else value

    reference = entry.references[0]
    values = [only_even(value) for value in reference.values]
    apart = explore(
        Entry(entry.family, references=[reference.model_copy(update={"values": values})], runs=entry.runs), set()
    )
    first, second = apart.first
    assert [kind.look for kind in apart.choices[0].kinds] == [0, 1]
    assert apart.choices[0].data("slug")["kinds"][1][1] == ", ".join(map(str, range(1, 32, 2)))
    rows = [(value.host, value.name) for value in values if value.absent is None]
    assert apart.lacking(first, rows) == []
    assert ("mlp", False, ["router_logits"]) in apart.lacking(second, rows)
