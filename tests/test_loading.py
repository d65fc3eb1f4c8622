"""How a model comes to be: checkpoints, loaded modules, sizes, and what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from forged import (
    FAMILIES,
    PROMPT,
    attentions,
    chooses_experts,
    each_family,
    encoded,
    folder,
    full,
    is_mixture,
    load,
    spec,
)
from reading import everything

from nnpedia import CheckpointError, StandardizedTransformer, Unavailable, UnknownFamily
from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")


@each_family
def test_nothing_is_loaded_before_the_first_trace(family: str) -> None:
    """Sizes, names and the printout need no weights; then a trace loads them by itself."""
    model = StandardizedTransformer(folder(family))
    assert model.num_layers == len(model.layers)
    assert repr(model)
    assert not model.dispatched
    assert all(parameter.is_meta for parameter in model._module.parameters())
    with model.trace(PROMPT):
        logits = model.logits.save()
    assert model.dispatched
    assert not any(parameter.is_meta for parameter in model._module.parameters())
    assert logits.shape == (1, len(PROMPT), model.vocab_size)


@each_family
def test_names_sources_and_paths_load_the_same(family: str) -> None:
    """`family:forge`, the folder as a string, and as a Path."""
    found = []
    for checkpoint in (f"{family}:forge", str(folder(family)), folder(family)):
        model = StandardizedTransformer(checkpoint, attn_implementation="eager")
        with model.trace(PROMPT):
            found.append(model.logits.clone().save())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def plain(family: str, **options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder(family), **options)


@each_family
def test_a_loaded_module_keeps_how_it_was_loaded(family: str) -> None:
    """Its attention, its dtype, its weights; and it works on its own as before when the trace is over."""
    module = plain(family, attn_implementation="eager", dtype=torch.float64).eval()
    if chooses_experts(family):  # the default kernel has no double precision
        module.set_experts_implementation("batched_mm")
    weights = {name: (id(parameter), parameter.clone()) for name, parameter in module.named_parameters()}
    inputs = encoded(full(family), PROMPT)
    with torch.no_grad():
        before = module(**inputs).logits
    model = StandardizedTransformer(module)
    assert model.load_options()["attn_implementation"] == "eager"
    with torch.no_grad(), model.trace(PROMPT):
        stream = model.layers[1].layer_output.clone().save()
        model.layers[1].layer_output = torch.zeros_like(stream)
        silenced = model.logits.clone().save()
    assert stream.dtype == torch.float64
    assert stream.abs().max() > 0
    assert not torch.equal(silenced, before)
    with torch.no_grad():
        assert torch.equal(module(**inputs).logits, before)
    for name, parameter in module.named_parameters():
        assert (id(parameter), True) == (weights[name][0], torch.equal(parameter, weights[name][1]))
    assert module.config._attn_implementation == "eager"


def test_a_loaded_module_takes_load_options_when_they_are_asked_for() -> None:
    model = StandardizedTransformer(plain("llama", attn_implementation="sdpa"), attn_implementation="eager")
    assert model.load_options() == {"attn_implementation": "eager"}
    with model.trace(PROMPT):
        pattern = model.layers[0].self_attn.attention_probabilities.clone().save()
    assert torch.equal(pattern, everything(full("llama"))[0, "self_attn", "attention_probabilities"])


def test_a_module_without_a_tokenizer_takes_token_ids_and_says_so_of_text() -> None:
    """As a module made from a config is, which names no folder."""
    module = plain("llama", attn_implementation="eager")
    module.config._name_or_path = module.name_or_path = ""
    model = StandardizedTransformer(module)
    ids = encoded(full("llama"), PROMPT)["input_ids"]
    with model.trace(ids):
        logits = model.logits.clone().save()
    assert torch.equal(logits, everything(full("llama"))[None, "model", "logits"])
    with pytest.raises(CheckpointError, match="came without a tokenizer"), model.trace(PROMPT):
        _ = model.logits
    given = StandardizedTransformer(module, tokenizer=full("llama").tokenizer)
    with given.trace(PROMPT):
        logits = given.logits.clone().save()
    assert torch.equal(logits, everything(full("llama"))[None, "model", "logits"])


def test_a_module_that_is_no_transformer_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Linear is not a transformers model"):
        StandardizedTransformer(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("kind", ["AutoModel", "AutoModelForSequenceClassification"])
def test_a_module_without_a_language_model_head_is_refused(kind: str) -> None:
    import transformers

    module = getattr(transformers, kind).from_pretrained(folder("llama"))
    with pytest.raises(CheckpointError, match="is not a causal language model"):
        StandardizedTransformer(module)


def test_a_weight_the_files_lack_is_refused_and_not_drawn_at_random(tmp_path: Path) -> None:
    """Also a second time: nothing runs on what was loaded by half."""
    import shutil

    from safetensors.torch import load_file, save_file

    copy = tmp_path / "lacking"
    shutil.copytree(folder("llama"), copy)
    weights = load_file(copy / "model.safetensors")
    del weights["model.layers.1.input_layernorm.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    model = StandardizedTransformer(copy)
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"lacks the weights model.layers.1.input_layernorm.weight"):
            model.dispatch()
        assert not model.dispatched
    with pytest.raises(CheckpointError, match="lacks the weights"):  # noqa: SIM117 (a trace stands alone)
        with model.trace(PROMPT):
            model.logits.save()


@pytest.mark.parametrize("load", [{"attn_implementation": "bogus"}, {"dtype": "float31"}])
def test_a_choice_that_transformers_does_not_know_is_one_line(load: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="it cannot be loaded so") as caught:
        StandardizedTransformer(folder("llama"), **load)
    assert "\n" not in str(caught.value)


@each_family
def test_dtype_is_a_torch_dtype_or_its_name(family: str) -> None:
    """And the values are in it; a config may keep the residual stream in single precision."""
    kept = getattr(full(family)._module.config, "residual_in_fp32", False)
    options = {}
    if chooses_experts(family) and (full(family).hidden_size % 8 or full(family).intermediate_size % 8):
        options = {"experts_implementation": "batched_mm"}  # the default kernel takes rows of 16 bytes and multiples
    for dtype in (torch.bfloat16, "bfloat16"):
        model = StandardizedTransformer(folder(family), dtype=dtype, **options)
        with model.trace(PROMPT):
            embeddings = model.token_embeddings.clone().save()
            stream = model.layers[0].layer_output.clone().save()
            probabilities = model.next_token_probs.clone().save()
        assert embeddings.dtype == torch.bfloat16
        assert stream.dtype == (torch.float32 if kept else torch.bfloat16)
        assert torch.isfinite(probabilities).all()
        close = everything(full(family))[0, "layers", "layer_output"]
        # On the average: where a router is near a tie, rounding sends a token elsewhere.
        assert (stream - close).abs().mean() < 0.05 * close.abs().mean()


@pytest.mark.parametrize("family", ["llama"])
def test_code_from_a_checkpoint_is_refused(family: str) -> None:
    with pytest.raises(CheckpointError, match="trust_remote_code stays off"):
        StandardizedTransformer(folder(family), trust_remote_code=True)


def test_an_unknown_model_type_says_which_families_are_close_and_how_to_draft_one(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    class LlameConfig(LlamaConfig):
        model_type = "llame"

    config = LlameConfig(
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=16,
    )
    with pytest.raises(UnknownFamily) as caught:
        StandardizedTransformer(LlamaForCausalLM(config))
    text = str(caught.value)
    assert text.startswith("no family describes the model_type 'llame'; the closest is 'llama'")
    assert "families/llame/family.yml with `extends: llama`" in text
    assert "\n" not in text


def test_a_checkpoint_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for checkpoint in (tmp_path / "nothing", "./nothing", "llama:nothing", "nothing:forge"):
        with pytest.raises(Exception, match="nothing") as caught:
            StandardizedTransformer(checkpoint)
        assert type(caught.value).__module__ == "nnpedia.errors"
        assert "\n" not in str(caught.value)
    (tmp_path / "config.json").write_text("{ not json")
    with pytest.raises(CheckpointError) as caught_json:
        StandardizedTransformer(tmp_path)
    assert "\n" not in str(caught_json.value)


# -- what a model says of itself ----------------------------------------------------------------


@each_family
def test_sizes_are_the_configs(family: str) -> None:
    model = full(family)
    config = model._module.config
    assert model.num_layers == config.num_hidden_layers
    assert model.hidden_size == config.hidden_size == model._module.get_input_embeddings().embedding_dim
    assert model.vocab_size == config.vocab_size == model._module.get_output_embeddings().weight.shape[0]
    if "attention" in spec(family).parts:
        shared = getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False)
        assert model.num_heads == config.num_attention_heads
        assert model.num_kv_heads == (
            1 if shared else getattr(config, "num_key_value_heads", config.num_attention_heads)
        )
    else:
        assert not hasattr(model, "num_heads")
        assert not hasattr(model, "num_kv_heads")
    if is_mixture(family):
        assert model.top_k == config.num_experts_per_tok
        assert 1 <= model.top_k < model.num_experts
    else:
        assert not hasattr(model, "num_experts")
        assert not hasattr(model, "top_k")


@each_family
def test_values_and_dir_name_what_can_be_read(family: str) -> None:
    model = full(family)
    readable = {".".join(spot[1:]) for spot, value in everything(model).items() if not isinstance(value, Exception)}
    assert set(model.values()) == readable
    assert len(model.values()) == len(set(model.values()))
    for host in spec(family).values:
        own = [name.split(".")[1] for name in model.values(host)]
        layers = [None] if host == "model" else range(model.num_layers)
        envoys = [envoy for layer in layers if (envoy := host_at(model, layer, host)) is not None]
        assert bool(own) == bool(envoys)
        assert all(name.startswith(f"{host}.") for name in model.values(host))
        assert all(set(own) <= set(dir(envoy)) for envoy in envoys)


@each_family
def test_support_is_what_a_forward_gives(family: str) -> None:
    """On the model, on a block, before and after the weights are there."""
    for attn in attentions(family):
        options = {"attn_implementation": attn}
        options |= {"experts_implementation": "eager"} if chooses_experts(family) else {}
        model = load(family, **options)
        found = everything(model)
        lazy = StandardizedTransformer(folder(family), **options)
        assert lazy.support(layer=1) == model.support(layer=1)
        # Experts run one by one pick their rows by value, which takes weights.
        assert lazy.dispatched == chooses_experts(family)
        for rows, layers in ((model.support(), range(model.num_layers)), (model.support(layer=1), [1])):
            assert [(row.host, row.name) for row in rows] == [
                (host, name) for host, table in spec(family).values.items() for name in table
            ]
            for row in rows:
                asked = (row.host, row.name)
                own = {spot: value for spot, value in found.items() if spot[1:] == asked and spot[0] in (None, *layers)}
                have = [spot[0] for spot, value in own.items() if not isinstance(value, Exception)]
                assert row.available == bool(have), row
                assert row.layers == tuple(layer for layer in layers if layer in have), row
                errors = [value for value in own.values() if isinstance(value, Unavailable)]
                # What a load lacks is told of the blocks that are built to have the value.
                error = next((error for error in errors if not error.layers), next(iter(errors), None))
                absent = spec(family).values[row.host][row.name].absent
                assert row.reason == (None if have else absent if error is None else error.reason)
                assert dict(row.load) == ({} if error is None else error.load)


@each_family
def test_the_printout_has_every_value_once_and_marks_what_this_load_lacks(family: str) -> None:
    for model in (full(family), load(family, attn_implementation=attentions(family)[-1])):
        text = repr(model)
        lines = [line.strip() for line in text.splitlines()]
        assert lines[0] == f"{type(model._module).__name__}("
        for host, table in spec(family).values.items():
            for name, value in table.items():
                shown = [line for line in lines if line.startswith(f"({name})")]
                own = [found for spot, found in everything(model).items() if spot[1:] == (host, name)]
                kinds = len([line for line in lines if line.startswith("(layer_input)")])
                assert (len(shown) == 0) == (value.absent is not None), (host, name)
                assert len(shown) <= (1 if host == "model" else kinds), (host, name)
                if shown and value.layout != "scalar":
                    axes = " ".join(spec(family).axes(value))
                    assert shown[0].startswith(f"({name}) -> {value.layout} [{axes}]: {value.says}")
                    lacking = all(isinstance(found, Unavailable) for found in own)
                    assert ("⚠︎" in shown[0]) == lacking
        assert "(0-" in text or "(0): " in text


@each_family
def test_the_lens_runs_outside_traces_before_any(family: str) -> None:
    """It loads the weights itself, takes one position or many, and needs no trace."""
    stream = everything(full(family))[full(family).num_layers - 1, "layers", "layer_output"]
    model = StandardizedTransformer(folder(family), attn_implementation="eager")
    logits = everything(full(family))[None, "model", "logits"]
    with torch.no_grad():
        assert torch.equal(model.project_on_vocab(stream), logits)
        one = model.project_on_vocab(stream[:, -1])
    assert one.shape == logits[:, -1].shape
    assert torch.allclose(one, logits[:, -1], atol=1e-4)


def test_every_family_is_found_by_its_model_type() -> None:
    from nnpedia.described import find_family

    for family in FAMILIES:
        assert full(family)._module.config.model_type == family
        assert find_family(family).family == family
