"""What a reader would be wronged by across families: a cell that hides a condition, a variant left out."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import sample_records as samples

from nnpedia import catalogue, diagram, kinds, lawrows, overview, pages, shapes, variants
from nnpedia.badges import load_badges
from nnpedia.entry import Entry
from nnpedia.family import load_family
from nnpedia.finding.matrix import matrix_page
from nnpedia.record import BlockKind, ConfigRow, HostFact, LawFact, Run, ValueFact

FAMILIES = samples.FAMILIES


@pytest.fixture(scope="module")
def phimoe() -> Entry:
    return samples.entry(FAMILIES / "phimoe")


@pytest.fixture(scope="module")
def falcon() -> Entry:
    """Falcon with a run of each of two layouts beside the first."""
    made = samples.entry(FAMILIES / "falcon")
    runs = [made.runs[0]]
    for name in ("grouped", "refined-web"):
        family = load_family(FAMILIES / "falcon", (name,))
        config = [ConfigRow(key=key, value=value, origin="forge") for key, value in family.variants[name].when.items()]
        origin = made.runs[0].origin.model_copy(update={"name": f"forge-{name}"})
        changes = {"origin": origin, "config": config, "values": samples.values(family, probed=True),
                   "laws": samples.laws(family), "snippets": []}  # fmt: skip
        runs.append(made.runs[0].model_copy(update=changes))
    return replace(made, runs=runs)


def shown(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", str(html).replace("<wbr>", "")).split())


def with_value(entry: Entry, name: str, **changes: Any) -> Entry:
    """The entry with a value said otherwise by every record."""

    def changed(values: list[ValueFact]) -> list[ValueFact]:
        return [value.model_copy(update=changes) if value.name == name else value for value in values]

    return replace(
        entry,
        references=[each.model_copy(update={"values": changed(each.values)}) for each in entry.references],
        runs=[each.model_copy(update={"values": changed(each.values)}) for each in entry.runs],
    )


def family_html(entry: Entry) -> str:
    return str(pages.family_page(entry, load_badges(FAMILIES), {}).html)


# Values by families.


def test_every_value_has_a_cell_on_every_family(phimoe: Entry, falcon: Entry) -> None:
    table = overview.table([phimoe, falcon])
    named = {(line.host, line.name) for line in table.lines}
    assert named == {(host, name) for host, values in phimoe.family.values.items() for name in values}
    assert all([cell.family for cell in line.cells] == ["phimoe", "falcon"] for line in table.lines)
    assert sum(table.counts.values()) == 2 * len(table.lines)


def cell(entry: Entry, host: str, name: str) -> overview.Cell:
    return overview.cells(entry)[host, name]


def test_a_cell_says_its_condition_or_its_reason(phimoe: Entry) -> None:
    assert cell(phimoe, "self_attn", "attention_queries").states == ("served",)
    scores = cell(phimoe, "self_attn", "attention_scores")
    assert scores.states == ("loads",)
    assert 'needs attn_implementation="eager"' in scores.says
    missing = cell(phimoe, "mlp", "shared_expert_output")
    assert missing.states == ("absent",)
    text = shown(matrix_page({"phimoe": phimoe}).html)
    assert 'under some loads : needs attn_implementation="eager"' in text.replace("&#34;", '"')
    assert f"absent : {missing.says} mlp.shared_expert_output: phimoe" in text


def test_a_value_of_some_blocks_names_them(phimoe: Entry) -> None:
    some = with_value(phimoe, "attention_queries", layers=[0, 1, 2, 5])
    found = cell(some, "self_attn", "attention_queries")
    assert found.states == ("blocks",)
    assert "0–2, 5 of forge" in found.says
    assert "on layers 0–2, 5 of forge" in shown(family_html(some))


def test_a_reference_speaks_for_all_blocks_of_a_kind(phimoe: Entry) -> None:
    reference = phimoe.references[0]
    first, second = (
        reference.kinds[0].model_copy(update={"name": name, "layers": layers})
        for name, layers in (("a", [0, 2, 4]), ("b", [1, 3]))
    )
    fact = reference.values[0].model_copy(update={"layers": [1]})
    assert kinds.layers_of(reference.model_copy(update={"kinds": [first, second]}), fact) == [1, 3]


def test_a_family_that_was_not_built_is_not_said_to_lack_anything(phimoe: Entry) -> None:
    unbuilt = replace(phimoe, references=[], runs=[])
    assert {found.states for found in overview.cells(unbuilt).values()} == {("unknown",)}
    assert {found.states for found in overview.cells(replace(phimoe, runs=[])).values()} == {("unknown",), ("absent",)}


def test_cells_lead_to_rows_that_are_there(phimoe: Entry) -> None:
    html, page = str(matrix_page({"phimoe": phimoe}).html), family_html(phimoe)
    anchors = re.findall(r'href="\.\./families/phimoe/#([^"]+)"', html)
    assert anchors
    assert set(anchors) <= set(re.findall(r'id="([^"]+)"', page))


# Readers.


def test_every_reader_is_listed_as_it_is_registered() -> None:
    from nnpedia.readers import READERS

    listed = {reader.name: reader for reader in catalogue.catalogue([])}
    assert {name: reader.write is not None for name, reader in READERS.items()} == {
        name: reader.assignable for name, reader in listed.items()
    }
    assert all(reader.says for reader in listed.values())


def test_a_reader_names_its_families_and_values() -> None:
    mamba = samples.entry(FAMILIES / "mamba2")
    phimoe = samples.entry(FAMILIES / "phimoe")
    listed = {reader.name: reader for reader in catalogue.catalogue([mamba, phimoe])}
    assert listed["mamba2.step_decays"].families == ["mamba2"]
    assert [(use.name, use.steps) for use in listed["mamba2.step_decays"].uses] == [("decays", True)]
    assert listed["call.input_size"].families == ["mamba2", "phimoe"]


def test_pages_are_rendered_without_torch() -> None:
    code = "import sys, nnpedia.hook, nnpedia.catalogue as c; c.catalogue([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Variants.


def test_a_value_read_elsewhere_on_a_variant_shows_both_places(falcon: Entry) -> None:
    row = re.search(r'<tr id="value-self_attn-attention_queries"[^>]*>.*?</tr>', family_html(falcon), re.DOTALL)
    assert row is not None
    text = shown(row[0])
    assert text.index("base layout, grouped") < text.index("words for @apply_rotary_pos_emb_0.output[0]")
    assert text.index("refined-web") < text.index("words for @query_layer_0.output")


def test_a_value_of_one_variant_is_a_row_that_says_who_lacks_it(falcon: Entry) -> None:
    html = family_html(falcon)
    row = re.search(r'<tr id="value-layers-layer_mid"[^>]*>.*?</tr>', html, re.DOTALL)
    assert row is not None
    assert "not there: " in shown(row[0])
    assert html.count('id="value-layers-layer_mid"') == 1
    assert cell(falcon, "layers", "layer_mid").states == ("checkpoints",)


def test_a_variant_says_what_it_is_and_what_differs(falcon: Entry) -> None:
    found = {view.name: view for view in variants.variant_views(falcon)}
    assert "layer_mid" in [fact.name for fact in found["refined-web"].gained]
    assert "attention_keys" in [fact.name for fact in found["grouped"].moved]
    text = shown(family_html(falcon))
    assert "alibi=True, parallel_attn=False" in text
    assert falcon.family.variants["refined-web"].says in text


def test_a_variant_that_implies_another_stands_alone(falcon: Entry) -> None:
    config = [
        ConfigRow(key="new_decoder_architecture", value=True, origin="forge"),
        ConfigRow(key="num_ln_in_parallel_attn", value=1, origin="forge"),
    ]
    run = falcon.runs[0].model_copy(update={"config": config})
    assert variants.variants_of(falcon, run) == ["one-norm"]


def test_a_law_that_reads_otherwise_on_a_variant_shows_both_formulas(falcon: Entry) -> None:
    law = next(law for law in lawrows.law_rows(falcon) if law.name == "mlp_call")
    assert [(form.where, form.formula) for form in law.forms] == [
        ("base layout", "attention_norm_output == mlp_input"),
        ("grouped, refined-web", "mlp_norm_output == mlp_input"),
    ]


def test_a_law_that_some_layouts_alone_have_says_so_among_those_of_its_host(falcon: Entry) -> None:
    *some, sequential = falcon.runs
    without = [
        run.model_copy(update={"laws": [law for law in run.laws if law.name != "attention_add"]}) for run in some
    ]
    rows = lawrows.law_rows(replace(falcon, runs=[*without, sequential]))
    added = next(law for law in rows if law.name == "attention_add")
    assert [form.where for form in added.forms] == ["refined-web"]
    assert next(law for law in rows if law.name == "next_block").forms[0].where == ""
    hosts = [row.host for row in rows]
    assert hosts == sorted(hosts, key=hosts.index), "laws of a host stand apart"


def test_a_law_reads_as_on_the_checkpoints_it_is_shown_for(falcon: Entry) -> None:
    law = next(law for law in lawrows.law_rows(falcon) if law.name == "mlp_call")
    base, grouped, other = falcon.runs
    shown_for = [[grouped], [base], [base, other]]
    forms = [[form.where for form in lawrows.on_records(falcon, law, runs).forms] for runs in shown_for]
    assert forms == [["grouped, refined-web"], ["base layout"], ["base layout", "grouped, refined-web"]]
    html = family_html(falcon)
    rows = re.findall(r'data-of="([^"]*)"', html)
    assert any("forge-grouped" in row.split() and "forge" not in row.split() for row in rows)


def test_the_worst_run_stands_first(falcon: Entry) -> None:
    def off(run: Run, error: float, holds: bool = True) -> Run:
        laws = [law.model_copy(update={"error": error, "holds": holds}) for law in run.laws]
        return run.model_copy(update={"laws": laws})

    first, second, third = falcon.runs
    entry = replace(falcon, runs=[off(first, 0.5), off(second, 1.5), off(third, 0.0)])
    form = next(law for law in lawrows.law_rows(entry) if law.name == "next_block").forms[0]
    assert form.worst is not None
    assert form.worst.run == "forge-grouped"
    assert [error for _, error, _ in form.findings] == ["1.5 ε", "0.5 ε", "exact"]
    broken = replace(falcon, runs=[off(first, 0.5, holds=False), off(second, 1.5), third])
    form = next(law for law in lawrows.law_rows(broken) if law.name == "next_block").forms[0]
    assert form.worst is not None
    assert form.worst.run == "forge"


# Absent hosts, virtual hosts, kinds of block.


def test_a_host_that_is_absent_as_a_whole_is_one_line(phimoe: Entry) -> None:
    html = family_html(phimoe)
    size = len(phimoe.family.values["linear_attn"])
    assert f"linear_attn : all {size} values" in shown(html)
    for name in phimoe.family.values["linear_attn"]:
        assert html.count(f'id="value-linear_attn-{name}"') == 1


def host(name: str, native: str, path: str) -> HostFact:
    return HostFact(name=name, path=f"model.layers[i].{name}", native_class=native, native_path=path)


def drawn(entry: Entry, hosts: list[HostFact]) -> shapes.Diagram:
    kind = BlockKind(name="block", layers=[0], hosts=[host("layers", "Block", "h.0"), *hosts])
    (diagram_,) = diagram.diagrams(entry.references[0].model_copy(update={"kinds": [kind]}))
    return diagram_


def test_a_virtual_host_shows_no_class() -> None:
    opt = samples.entry(FAMILIES / "opt")
    block = drawn(opt, [host("self_attn", "OPTAttention", "h.0.self_attn"), host("mlp", "Block", "h.0")])
    assert {panel.title: panel.native for panel in block.panels} == {"self_attn": "OPTAttention", "mlp": ""}


def test_a_recurrent_mixer_has_a_state_that_loops() -> None:
    mamba = samples.entry(FAMILIES / "mamba2")
    block = drawn(mamba, [host("linear_attn", "Mamba2Mixer", "h.0.mixer")])
    places = {chip.value.name: chip for chip in block.chips}
    assert set(places) == {fact.name for fact in mamba.references[0].values if fact.host != "model" and not fact.absent}
    state = next(panel for panel in block.panels if panel.title == "state")
    for name in ("keys", "values", "betas", "decays"):
        assert places[name].y + shapes.HEIGHT <= state.y
    assert state.y < places["states"].y < state.y + state.height
    assert state.y + state.height <= places["head_outputs"].y < places["premix"].y
    assert len(block.loops) == 1
    boxes = [(chip.x, chip.y, chip.right, chip.y + shapes.HEIGHT) for chip in block.chips]
    for index, one in enumerate(boxes):
        assert one[2] <= shapes.WIDTH
        for other in boxes[index + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_kinds_of_one_layer_type_are_told_apart_by_their_classes() -> None:
    attention = host("self_attn", "Attention", "h.0.self_attn")
    both = [
        BlockKind(name="block", layers=[0], hosts=[attention, host("mlp", "Dense", "h.0.mlp")]),
        BlockKind(name="block", layers=[1, 2], hosts=[attention, host("mlp", "Mixture", "h.1.mlp")]),
    ]
    assert kinds.labels(both) == ["Dense", "Mixture"]
    hybrid = [kind.model_copy(update={"name": "linear_attention"}) for kind in both]
    other = BlockKind(name="full_attention", layers=[3], hosts=[host("self_attn", "Other", "h.3.self_attn")])
    assert kinds.labels([*hybrid, other]) == [
        "linear_attention · Dense",
        "linear_attention · Mixture",
        "full_attention",
    ]
    assert kinds.labels([kind.model_copy(update={"name": f"{kind.layers}"}) for kind in both]) == ["[0]", "[1, 2]"]


def test_each_kind_of_block_has_its_own_identity(phimoe: Entry) -> None:
    def law(name: str, formula: str) -> LawFact:
        return LawFact(name=name, host="layers", says="", formula=formula, holds=True, error=0.0, load="eager", cases=1)

    laws = [
        law("residual_sum", "layer_input + self_attn.attention_output + mlp.mlp_output == layer_output"),
        law("recurrent_sum", "layer_input + linear_attn.linear_attn_output + mlp.mlp_output == layer_output"),
        law("mlp_add", "layer_mid + mlp.mlp_output == layer_output"),
    ]
    rows = lawrows.law_rows(replace(phimoe, runs=[phimoe.runs[0].model_copy(update={"laws": laws})]))
    found = [
        lawrows.contribution(rows, hosts)
        for hosts in (["layers", "self_attn", "mlp"], ["layers", "linear_attn", "mlp"], ["layers"])
    ]
    assert [row and row.name for row in found] == ["residual_sum", "recurrent_sum", None]
