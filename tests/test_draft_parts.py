"""The parts of drafting: todos in a spec, layouts found by shape, small sizes, and the coverage table's page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
import yaml

from nnpedia.checking import check_families, unfinished
from nnpedia.draft.coverage import Table, read_table, summary, write_table
from nnpedia.draft.places import laid_out, natives, same
from nnpedia.errors import SpecError
from nnpedia.family import load_family
from nnpedia.laws import distance

ROOT = Path(__file__).parent.parent
FAMILIES = ROOT / "families"


@pytest.fixture
def open_family(tmp_path: Path) -> Path:
    """A families folder with one family, a value of which is not worked out."""
    for name in ("vocabulary.yml", "badges.yml"):
        shutil.copy(FAMILIES / name, tmp_path / name)
    folder = tmp_path / "llama"
    folder.mkdir()
    spec = yaml.safe_load((FAMILIES / "llama" / "family.yml").read_text())
    spec |= {"values": {"self_attn": {"attention_scores": {"todo": "no form of the law scores holds"}}}, "packages": []}
    (folder / "family.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (folder / "notes.md").write_text("## A\n\n```python\nassert True\n```\n")
    return tmp_path


def test_a_todo_makes_a_value_unavailable_with_its_reason(open_family: Path) -> None:
    spec = load_family(open_family / "llama").values["self_attn"]["attention_scores"]
    assert spec.at is None
    assert spec.todo == "no form of the law scores holds"
    assert spec.absent == "not worked out yet: no form of the law scores holds"


def test_check_lists_what_is_not_finished_and_finds_it_no_fault(open_family: Path) -> None:
    assert check_families(open_family) == {"llama": []}
    (line,) = unfinished(open_family, ["llama"])
    assert "attention_scores is not finished" in line
    assert "family.yml:" in line


def test_a_value_with_a_place_has_no_todo(open_family: Path) -> None:
    spec = open_family / "llama" / "family.yml"
    spec.write_text(spec.read_text().replace("todo: ", "at: output\n      todo: "))
    with pytest.raises(SpecError, match="at most one of"):
        load_family(open_family / "llama")


def test_what_a_family_over_a_todo_says_stands(open_family: Path) -> None:
    child = open_family / "over"
    child.mkdir()
    spec = yaml.safe_load((open_family / "llama" / "family.yml").read_text())
    spec |= {"family": "over", "extends": "llama", "values": {"self_attn": {"attention_scores": {"at": "output"}}}}
    (child / "family.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    value = load_family(child).values["self_attn"]["attention_scores"]
    assert (value.at, value.absent, value.todo) == ("output", None, None)


def test_a_law_that_gives_infinity_is_infinitely_off() -> None:
    """A form that divides by zero must not pass for one that holds."""
    assert distance(torch.tensor([1.0, 2.0]) / 0.0, torch.tensor([1.0, 2.0])) == float("inf")


AXES = ("batch", "num_heads", "seq", "head_dim")


@pytest.mark.parametrize(
    ("shape", "native"),
    [
        ((2, 5, 7, 3), None),
        ((2, 7, 5, 3), "batch seq num_heads head_dim -> batch num_heads seq head_dim"),
        ((10, 3, 7), "(batch num_heads) head_dim seq -> batch num_heads seq head_dim"),
        ((2, 7, 15), "batch seq (num_heads head_dim) -> batch num_heads seq head_dim"),
    ],
)
def test_a_layout_is_found_by_its_shape(shape: tuple[int, ...], native: str | None) -> None:
    assert native in natives(AXES, (2, 5, 7, 3))[shape]


def test_a_value_is_known_in_a_merged_layout() -> None:
    value = torch.randn(2, 5, 7, 3)
    merged = value.transpose(1, 2).flatten(2)
    sizes = dict(zip(AXES, value.shape, strict=True))
    assert any(same(tensor, value) for _, tensor in laid_out(merged, AXES, sizes))
    assert not any(same(tensor, value) for _, tensor in laid_out(merged + 1e-3, AXES, sizes))


def test_one_value_up_to_rounding_and_masks() -> None:
    value = torch.tensor([1.0, float("-inf")])
    assert same(value, value * (1 + 2e-7))
    assert not same(value, torch.tensor([1.001, float("-inf")]))
    assert not same(value, torch.tensor([float("-inf"), 1.0]))


@pytest.mark.parametrize(
    ("model_type", "kinds"),
    [
        ("deepseek_v32", None),
        ("granitemoehybrid", ["linear_attention", "full_attention", "linear_attention"]),
    ],
)
def test_attention_is_given_only_to_a_class_whose_blocks_have_none(model_type: str, kinds: list[str] | None) -> None:
    """A block whose attention has an index of its own fails when its cache is made for a plain one."""
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.scaling import forge_sizes

    subject = open_subject(model_type)
    first = next(forge_sizes(model_type, subject.config, subject.stated))
    assert first["num_hidden_layers"] == 3
    assert first.get("layer_types") == kinds


def test_what_a_config_tells_by_the_numbers_of_blocks_follows_the_blocks() -> None:
    """Gemma 4 E2B: kinds in a list, a length under the numbers of some blocks, and a block that borrows of its kind."""
    from nnpedia.checkpoints import configs
    from nnpedia.draft.elsewhere import subject_of
    from nnpedia.draft.scaling import forge_sizes

    family = load_family(FAMILIES / "gemma4_text")
    subject = subject_of(family, family.checkpoints[0], family.architecture)
    sizes = [*forge_sizes(subject.model_type, subject.config, subject.stated)]
    for tried, wide in ((sizes[0], [False, False, True]), (sizes[-1], [False, True, False, True])):
        config = configs.build(subject.model_type, subject.stated, tried)
        assert [layer.head_dim for layer in config.per_layer_config] == [40 if one else 20 for one in wide]
        assert [kind == "full_attention" for kind in config.layer_types] == wide


COVER = {"architecture": "XForCausalLM", "extends": "llama", "proven": 3, "todo": 1, "laws": 2, "untold": 0}
COVER |= {"problems": 0, "full_size": "", "model_type": "x", "why": "scores: <no form holds>"}
SCORE = {"family": "gpt2", "extends": "llama", "names": [1, 2], "values": [3, 4], "badges": [5, 6], "wrong": []}
SCORE |= {"missing": ["layers.layer_mid"], "partly": [], "name_faults": [], "lacking": [], "added": []}
SCORE |= {"problems": [], "cause": None}


def test_the_table_comes_back_as_it_was_written_and_is_shown(tmp_path: Path) -> None:
    from nnpedia.draft.page import coverage_page

    table = Table({"gpt2": SCORE}, {"x": {**COVER, "state": "drafted"}})
    write_table(table, tmp_path / "coverage.json")
    assert read_table(tmp_path) == table
    assert "names 1/2, values 3/4, badges 5/6, 0 wrong" in summary(table)
    html = coverage_page(tmp_path, ["gpt2"]).html
    assert 'href="../families/gpt2/"' in html
    assert "layers.layer_mid" in html
    assert "scores: &lt;no form holds&gt;" in html
    assert 'id="drafted"' in html


def test_without_a_table_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    from nnpedia.draft.page import coverage_page

    assert "nnpedia draft --measure" in coverage_page(tmp_path, []).html


def test_a_table_that_does_not_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "coverage.json").write_text("{")
    with pytest.raises(SpecError, match="measure it anew"):
        read_table(tmp_path)


def test_the_table_that_ships_is_of_every_model_type() -> None:
    """Every causal language model of transformers has its row: a family, or what became of its draft."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    table = read_table(FAMILIES)
    assert table is not None
    there = {*table.covers, *(path.parent.name for path in FAMILIES.glob("*/family.yml"))}
    assert {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} <= there
    assert not [score["wrong"] for score in table.scores.values() if score["wrong"]]
