"""A key that a config class does not know is refused: else its default would stand under a checkpoint's name."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from forged import each_family, spec
from forged import folder as folder_of
from small_families import ROOT
from transformers import CONFIG_MAPPING

from nnpedia import checkpoints
from nnpedia.checking import check_family
from nnpedia.checkpoints.stated import knows, wrong_keys
from nnpedia.draft.opening import open_subject
from nnpedia.errors import SpecError
from nnpedia.family import load_family

#: A family, what its spec says, what it says instead, and the end of what the check answers at that line.
MISSPELT = {
    "a checkpoint's": (
        "llama",
        "hidden_size: 5120",
        "hidden_sise: 5120",
        "no 'hidden_sise'; did you mean 'hidden_size'?",
    ),
    "the forge's": ("gpt2", "\n  n_embd: 60", "\n  n_emdb: 60", "no 'n_emdb'; did you mean 'n_embd'?"),
    "a variant's condition": (
        "cohere",
        "when: {use_qk_norm: true}",
        "when: {use_qk_nrom: true}",
        "no 'use_qk_nrom'; did you mean 'use_qk_norm'?",
    ),
    "a variant's sizes": (
        "stablelm",
        "forge: {use_qkv_bias: false}",
        "forge: {use_qvk_bias: false}",
        "no 'use_qvk_bias'; did you mean 'use_qkv_bias'?",
    ),
    "a rotary parameter": (
        "llama",
        "rope_theta: 500000.0}",
        "rope_thtea: 500000.0}",
        "no 'rope_parameters.rope_thtea'; did you mean 'rope_theta'?",
    ),
    "a kind of block's": (
        "gemma3_text",
        "full_attention: {rope_type: linear, factor",
        "full_atention: {rope_type: linear, factor",
        "no 'rope_parameters.full_atention'; did you mean 'full_attention'?",
    ),
    "a rotary parameter of a kind of block": (
        "gemma3_text",
        "full_attention: {rope_type: linear, factor",
        "full_attention: {rope_type: linear, fcator",
        "no 'rope_parameters.full_attention.fcator'; did you mean 'factor'?",
    ),
    "a part's": ("mpt", "clip_qkv: 6", "clip_qvk: 6", "no 'attn_config.clip_qvk'; did you mean 'clip_qkv'?"),
    "one block's": (
        "llama",
        "config: {max_position_embeddings: 4096, ",
        "config: {per_layer_config: {3: {num_key_value_haeds: 2}}, ",
        "no 'per_layer_config.3.num_key_value_haeds'; did you mean 'num_key_value_heads'?",
    ),
    "one without a like": ("llama", "hidden_size: 5120", "zzz: 5120", "no 'zzz'; leave it out"),
}

#: The same of values that the field of a config class cannot be.
MISTYPED = {
    "a word for a length": (
        "llama",
        "hidden_size: 5120",
        "hidden_size: abc",
        "does not take this 'hidden_size': Field 'hidden_size' expected int, got str (value: 'abc')",
    ),
    "a number in quotes": ("gpt2", "\n  n_layer: 3", '\n  n_layer: "four"', "expected int, got str (value: 'four')"),
    "a list for a length": ("llama", "hidden_size: 5120", "hidden_size: [5120]", "got list (value: [5120])"),
    "a number for a switch": (
        "cohere",
        "when: {use_qk_norm: true}",
        "when: {use_qk_norm: 7}",
        "does not take this 'use_qk_norm': Field 'use_qk_norm' with value 7 doesn't match any type in (<class 'bool'>",
    ),
    "a word in a part": (
        "mpt",
        "clip_qkv: 6",
        "clip_qkv: much",
        "does not take this 'attn_config.clip_qkv': Field 'clip_qkv' with value 'much.0' doesn't match any type in ",
    ),
    "a word for one block": (
        "llama",
        "config: {max_position_embeddings: 4096, ",
        "config: {per_layer_config: {3: {num_key_value_heads: two}}, ",
        "does not take this 'per_layer_config.3.num_key_value_heads': ",
    ),
}


def misspelt(tmp_path: Path, kind: str) -> tuple[Path, str, str]:
    """The folder of a family with one key misspelt, its line, and what is to be said of it."""
    name, old, new, said = (MISSPELT | MISTYPED)[kind]
    folder = tmp_path / "families" / name
    shutil.copytree(ROOT / "families", folder.parent)
    text = (folder / "family.yml").read_text()
    assert old in text
    changed = text.replace(old, new, 1)
    (folder / "family.yml").write_text(changed)
    line = changed[: changed.index(new) + len(new)].count("\n") + 1
    return folder, f"{name}/family.yml:{line}: ", said


@pytest.mark.parametrize("kind", MISSPELT)
def test_a_misspelt_key_is_named_at_its_line(tmp_path: Path, kind: str) -> None:
    folder, where, said = misspelt(tmp_path, kind)
    errors = [error for error in check_family(folder) if error.exit_code == 2]
    assert len(errors) == 1
    assert where in str(errors[0])
    assert str(errors[0]).endswith(said)


@pytest.mark.parametrize("kind", MISTYPED)
def test_a_value_of_the_wrong_type_is_refused_at_its_line(tmp_path: Path, kind: str) -> None:
    folder, where, said = misspelt(tmp_path, kind)
    (error,) = (error for error in check_family(folder) if error.exit_code == 2)
    assert where in str(error)
    assert said in str(error)


def test_keys_that_do_not_fit_one_another_are_refused_at_their_checkpoint(tmp_path: Path) -> None:
    """Each could be right; a class that looks at them together refuses them."""
    shutil.copytree(ROOT / "families", tmp_path / "families")
    file = tmp_path / "families" / "llama" / "family.yml"
    changed = file.read_text().replace("num_attention_heads: 64\n", "num_attention_heads: 63\n", 1)
    file.write_text(changed)
    line = changed[: changed.index("- id: meta-llama/Llama-2-70b-hf")].count("\n") + 1
    (error,) = (error for error in check_family(file.parent) if error.exit_code == 2)
    assert f"llama/family.yml:{line}: the llama config refuses these keys" in str(error)


@pytest.mark.parametrize(
    ("kind", "harmed"), [("a checkpoint's", "meta-llama/Llama-2-13b-hf"), ("the forge's", "forge")]
)
def test_a_build_refuses_what_it_is_said_of_and_nothing_else(tmp_path: Path, kind: str, harmed: str) -> None:
    folder, where, said = misspelt(tmp_path, kind)
    family = load_family(folder)
    refused = {}
    for checkpoint in family.checkpoints:
        try:
            checkpoints.reference_config(family, checkpoint)
        except SpecError as error:
            refused[checkpoint.id] = str(error)
    forge = next(each for each in checkpoints.runnables(family) if each.name == "forge")
    try:
        checkpoints.materialize(forge, family)
    except SpecError as error:
        refused["forge"] = str(error)
    assert list(refused) == [harmed]
    assert where in refused[harmed]
    assert refused[harmed].endswith(said)


def test_a_draft_states_no_key_that_means_nothing(tmp_path: Path) -> None:
    """A config on the Hub may have any key: one that the class does not know would be refused in the draft."""
    shutil.copytree(folder_of("llama"), tmp_path / "llama")
    config = tmp_path / "llama" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"zzz": 1, "mlp_bias": True}))
    stated = open_subject(str(tmp_path / "llama")).stated
    assert stated["mlp_bias"]
    assert "zzz" not in stated


@each_family
def test_every_key_that_a_spec_states_is_taken(family: str) -> None:
    assert wrong_keys(spec(family)) == []


@pytest.mark.parametrize(("model_type", "key"), [("qwen3_moe", "head_dim"), ("minimax_m2", "rotary_dim")])
def test_a_key_is_known_that_is_no_field_of_the_class(model_type: str, key: str) -> None:
    """The code of the models asks for the first, and the class takes the second while a config is made."""
    config_class = CONFIG_MAPPING[model_type]
    assert key not in {each.name for each in dataclasses.fields(config_class)}
    assert knows(config_class, key)
    assert not knows(config_class, key + "s")
