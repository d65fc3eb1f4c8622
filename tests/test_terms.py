"""A name in a law or an address that nothing has is found without a model, at the line that says it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from forged import each_family, spec
from small_families import ROOT

from nnpedia import formula
from nnpedia.checking import check_family
from nnpedia.errors import SpecError
from nnpedia.functions import each_expert
from nnpedia.terms import unknown_terms

UNWEIGHTED = "each_expert gives every slot's expert unweighted: multiply it by the weights of the slots"

#: What is said of Llama or of Qwen3-MoE, and what the check answers at that line.
WRONG = {
    "a value": (
        "llama",
        "laws:\n  layers:\n    residual_sum: {formula: layer_mid + mlp.mlp_outptu == layer_output}",
        "law residual_sum: there is no 'mlp.mlp_outptu'; did you mean 'mlp.mlp_output'?",
    ),
    "a value of another host": (
        "llama",
        "laws:\n  layers:\n    residual_sum: {formula: layer_mid + mlp.attention_output == layer_output}",
        "law residual_sum: there is no 'mlp.attention_output'; did you mean 'self_attn.attention_output'?",
    ),
    "a value of another block": (
        "llama",
        "laws:\n  layers:\n    next_block: {formula: layer_output == next.layer_inptu}",
        "law next_block: there is no 'next.layer_inptu'; did you mean 'layer_input'?",
    ),
    "a function": (
        "llama",
        "laws:\n  self_attn:\n    pattern: {formula: sofmax(attention_scores) == attention_probabilities}",
        "law pattern: there is no 'sofmax'; did you mean 'softmax'?",
    ),
    "a module": (
        "llama",
        "laws:\n  mlp:\n    down_projection: {formula: down_porj(mlp_neurons) == mlp_output}",
        "law down_projection: there is no 'down_porj'; did you mean 'down_proj'?",
    ),
    "a setting": (
        "llama",
        "laws:\n  layers:\n    next_block: {formula: layer_output * config.hiden_size == next.layer_input}",
        "law next_block: there is no 'config.hiden_size'; did you mean 'hidden_size'?",
    ),
    "a readout": ("llama", "readout: lm_haed(norm(hidden))", "readout: there is no 'lm_haed'; did you mean 'lm_head'?"),
    "a child of an address": (
        "llama",
        "values:\n  mlp:\n    mlp_neurons: {at: dwon_proj.input}",
        "mlp_neurons: there is no 'dwon_proj'; did you mean 'down_proj'?",
    ),
    "a factor": (
        "llama",
        "values:\n  mlp:\n    mlp_output: {at: output, scale: config.residual_multiplierr}",
        "mlp_output: there is no 'config.residual_multiplierr'",
    ),
    "a local variable for a module": (
        "llama",
        "values:\n  mlp:\n    mlp_neurons: {at: hidden_shape.input}",
        "mlp_neurons: there is no 'hidden_shape'",
    ),
    "a word of a comment for a module": (
        "llama",
        "laws:\n  mlp:\n    down_projection: {formula: License(mlp_neurons) == mlp_output}",
        "law down_projection: there is no 'License'",
    ),
    "a module for a setting": (
        "llama",
        "values:\n  mlp:\n    mlp_output: {at: output, scale: config.down_proj}",
        "mlp_output: there is no 'config.down_proj'",
    ),
    "an argument": (
        "llama",
        "values:\n  model:\n    attention_mask: {at: 'kwargs[attention_msak]'}",
        "attention_mask: nothing is called 'attention_msak' there; did you mean 'attention_mask'?",
    ),
    "a module that is given a name": (
        "llama",
        "variants:\n  x: {says: y, when: {attention_bias: true}, names: {mlp: {dwon_proj: down_proj}}}",
        "names: there is no 'dwon_proj'; did you mean 'down_proj'?",
    ),
    "a size": (
        "llama",
        "sizes:\n  num_heads: [config.num_atention_heads]",
        "sizes: there is no 'config.num_atention_heads'; did you mean 'num_attention_heads'?",
    ),
    "a lender": (
        "llama",
        "lender: {borrows: module.is_shraed, alike: config.hidden_size}",
        "lender: there is no 'module.is_shraed'",
    ),
    "a reader": (
        "llama",
        "values:\n  model:\n    next_token_probs: {reader: call.next_token_porbs}",
        "next_token_probs: there is no reader 'call.next_token_porbs'; did you mean 'call.next_token_probs'?",
    ),
    "an option of a load": (
        "llama",
        "values:\n  mlp:\n    mlp_output: {needs: {attn_implementaton: [eager]}}",
        "mlp_output: there is no option of a load 'attn_implementaton'; did you mean 'attn_implementation'?",
    ),
    "a class of blocks": (
        "llama",
        "values:\n  mlp:\n    mlp_output: {at: output, by_class: {LlamaMPL: output}}",
        "mlp_output: there is no class 'LlamaMPL'; did you mean 'LlamaMLP'?",
    ),
    "the checkpoint of a variant": (
        "llama",
        "variants:\n  x: {says: y, when: {attention_bias: true}, checkpoint: meta-llama/Llama-2-7b}",
        "x: there is no checkpoint 'meta-llama/Llama-2-7b'; did you mean 'meta-llama/Llama-2-7b-hf'?",
    ),
    "experts without weights": (
        "qwen3_moe",
        "laws:\n  mlp:\n    slots: {formula: 'each_expert(experts, mlp_input, expert_indices) == expert_outputs'}",
        UNWEIGHTED,
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_name_that_nothing_has_is_refused_at_its_line(tmp_path: Path, kind: str) -> None:
    name, said, answer = WRONG[kind]
    folder = tmp_path / "families" / name
    shutil.copytree(ROOT / "families", folder.parent)
    file = folder / "family.yml"
    section = said.partition("\n")[0]
    text = file.read_text()
    assert f"\n{section}\n" not in text, "the section would be given twice"
    file.write_text(f"{text}{said}\n")
    errors = [error for error in check_family(folder) if error.exit_code == 2]
    assert len(errors) == 1, errors
    line = file.read_text().count("\n")
    assert f"{name}/family.yml:{line}: " in str(errors[0])
    assert answer in str(errors[0])


def test_a_class_that_is_not_there_is_refused_at_its_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "families", tmp_path / "families")
    file = tmp_path / "families" / "llama" / "family.yml"
    text = file.read_text()
    file.write_text(text.replace("LlamaForCausalLM\n", "LlamaForCausalML\n", 1))
    line = text[: text.index("architecture:")].count("\n") + 1
    (error,) = check_family(file.parent)
    assert f"llama/family.yml:{line}: transformers has no class 'LlamaForCausalML' of llama" in str(error)
    assert str(error).endswith("; did you mean 'LlamaForCausalLM'?")


def test_a_model_type_that_is_not_there_is_refused_at_its_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "families", tmp_path / "families")
    folder = (tmp_path / "families" / "olmo").rename(tmp_path / "families" / "olmo22")
    file = folder / "family.yml"
    file.write_text(file.read_text().replace("family: olmo\n", "family: olmo22\n", 1))
    (error,) = check_family(folder)
    assert str(error).endswith("olmo22/family.yml:1: transformers has no model type 'olmo22'; did you mean 'olmo2'?")


def test_a_checkpoint_that_is_listed_twice_is_refused_at_its_line(tmp_path: Path) -> None:
    """Its second record would take the place of the first."""
    shutil.copytree(ROOT / "families", tmp_path / "families")
    file = tmp_path / "families" / "olmo" / "family.yml"
    text = file.read_text().replace("allenai/OLMo-7B-hf\n", "allenai/OLMo-1B-hf\n", 1)
    file.write_text(text)
    line = text[: text.rindex("- id: allenai/OLMo-1B-hf")].count("\n") + 1
    (error,) = check_family(file.parent)
    assert str(error).endswith(f"olmo/family.yml:{line}: the checkpoint allenai/OLMo-1B-hf is listed twice")


@each_family
def test_every_name_that_a_spec_uses_is_known(family: str) -> None:
    assert unknown_terms(spec(family)) == []


def test_experts_that_a_law_does_not_weigh_are_told_so_when_it_is_measured() -> None:
    class Experts:
        has_gate, is_transposed = False, False
        up_proj = down_proj = torch.eye(2).expand(1, 2, 2)
        act_fn = staticmethod(torch.relu)

    outputs = each_expert(Experts(), torch.ones(1, 3, 2), torch.zeros(1, 3, 1, dtype=torch.long))
    weighed = outputs * torch.full((1, 3, 1), 0.5)
    assert weighed.tolist() == [[[[0.5, 0.5]]] * 3]
    law = formula.parse("sum_slots(outputs) == x", law=True)
    from nnpedia.functions import FUNCTIONS

    with pytest.raises(SpecError, match=UNWEIGHTED):
        formula.evaluate(law.left, lambda name: FUNCTIONS.get(name, outputs))
