"""What a reader coming from another library would be wronged by: a name that leads to another value, or to none."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_records as samples

from nnpedia.errors import SpecError
from nnpedia.translation import FILE, load_translation

FAMILIES = samples.FAMILIES


def test_the_names_a_reader_types_are_there() -> None:
    lens = load_translation(FAMILIES).transformer_lens
    first = {(host, name): places[0].name for host, values in lens.values.items() for name, places in values.items()}
    assert first["self_attn", "attention_probabilities"] == "blocks.{layer}.attn.hook_pattern"
    assert first["layers", "layer_output"] == "blocks.{layer}.hook_resid_post"
    assert lens.places("model", "logits") == []


def test_a_block_s_place_holds_the_layer_and_a_model_s_does_not() -> None:
    for library in load_translation(FAMILIES).libraries.values():
        for host, values in library.values.items():
            for places in values.values():
                assert {library.layer in place.name for place in places} == {host != "model"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("vocabulary.yml", FILE):
        (tmp_path / name).write_text((FAMILIES / name).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def test_a_value_that_is_not_there_is_told_with_its_line(folder: Path) -> None:
    text = (folder / FILE).read_text(encoding="utf-8").replace("      layer_mid:", "      layer_middle:")
    (folder / FILE).write_text(text, encoding="utf-8")
    line = text[: text.index("layer_middle:")].count("\n") + 1
    with pytest.raises(SpecError, match=r"no value layers\.layer_middle; did you mean 'layer_mid'") as told:
        load_translation(folder)
    assert (told.value.where or "").endswith(f"{FILE}:{line}")


def test_a_place_named_twice_is_refused(folder: Path) -> None:
    text = (folder / FILE).read_text(encoding="utf-8").replace("hook_unembed", "unembed.hook_out")
    (folder / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"model\.lm_head_output needs one place or more, each of them once"):
        load_translation(folder)
