"""The forge: what a forgotten bias, gain, scale or tie would hide behind, and whether loading it works."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
)

from nnpedia import checkpoints
from nnpedia.cache import families_folder
from nnpedia.checkpoints import forge
from nnpedia.checkpoints.redraw import blocks, redraw, trained
from nnpedia.errors import CheckpointError
from nnpedia.family import load_family

FAMILIES = ["phimoe", "llama", "gpt2", "gemma3_text"]
PROMPT = "The Eiffel Tower is in the city of"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", params=FAMILIES)
def forged(request: pytest.FixtureRequest) -> Any:
    """A forged checkpoint with its folder, model and tokenizer."""
    family = load_family(families_folder() / request.param)
    folder = checkpoints.materialize(checkpoints.runnable(family, "forge"), family)
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    return SimpleNamespace(
        family=family, folder=folder, model=model, report=report, tokenizer=AutoTokenizer.from_pretrained(folder)
    )


def tiny(family: str = "gpt2", **forged: Any) -> Any:
    keys = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64, "vocab_size": 300} | forged
    return SimpleNamespace(
        family=family, architecture="GPT2LMHeadModel", forge=keys, packages=(),
        checkpoints=(SimpleNamespace(id="org/model", config={}, dtype="float32", origin="defaults", revision=None),),
    )  # fmt: skip


def test_it_loads_as_any_checkpoint_does(forged: Any) -> None:
    assert not any(forged.report.values())
    assert type(forged.model).__name__ == forged.family.architecture
    assert forged.model.config.model_type == forged.family.family
    assert forged.model.generation_config.eos_token_id == forged.tokenizer.eos_token_id == 258


def test_a_prompt_is_its_bytes_and_nothing_else(forged: Any) -> None:
    text = PROMPT + " «é»\n\t\0 😀"
    ids = forged.tokenizer(text).input_ids
    assert ids == list(text.encode())
    assert forged.tokenizer.decode(ids) == text
    assert forged.tokenizer(["a", "abc"], padding=True).input_ids[0].count(forged.tokenizer.pad_token_id) == 2


def test_activations_are_of_order_one(forged: Any) -> None:
    levels: list[float] = []

    def listen(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        into = args[0] if args else kwargs["hidden_states"]
        out = output[0] if isinstance(output, tuple) else output
        levels.extend(float(tensor.pow(2).mean().sqrt()) for tensor in (into, out))

    for block in blocks(forged.model):
        block.register_forward_hook(listen, with_kwargs=True)
    with torch.no_grad():
        logits = forged.model(**forged.tokenizer(PROMPT, return_tensors="pt")).logits
    assert len(levels) == 2 * forged.model.config.num_hidden_layers
    assert 0.3 < levels[0] < 3, "a scaled embedding is drawn that much smaller"
    assert all(0.3 < level < 30 for level in levels), levels
    assert 1 < float(logits.std()) < 5


def test_no_parameter_is_at_rest(forged: Any) -> None:
    """A vector that is all zeros or ones, or a matrix too small to see, would hide being forgotten."""
    for _, name, tensor in trained(forged.model):
        assert 0.05 < float(tensor.detach().std()) < 1.5, name


def test_each_parameter_shows_in_the_logits(forged: Any) -> None:
    """Putting any tensor of the first or last block back to rest moves the logits."""
    inputs = forged.tokenizer(PROMPT, return_tensors="pt")
    with torch.no_grad():
        before = forged.model(**inputs).logits
        for module, name, tensor in trained(forged.model):
            kept, gain = tensor.clone(), "norm" in name.lower() and name.endswith("weight")
            offset = gain and float(kept.mean()) < 0.5
            tensor.fill_(1.0 if gain and not offset else 0.0)
            moved = (forged.model(**inputs).logits - before).abs().max()
            tensor.copy_(kept)
            # a bias on the keys adds the same to every score of a query before rotation, and nothing without one
            if "k_proj.bias" not in name and module is not forged.model.get_input_embeddings():
                assert moved > 1e-3, name


def test_ties_stay_tied(forged: Any) -> None:
    tied = forged.model.get_output_embeddings().weight is forged.model.get_input_embeddings().weight
    assert tied is bool(forged.model.config.tie_word_embeddings)
    assert tied is (forged.family.family in ("gpt2", "gemma3_text"))


def test_the_same_spec_gives_the_same_bytes(forged: Any, tmp_path: Path) -> None:
    torch.manual_seed(12345)  # whatever else ran before
    forge.save(forged.family, tmp_path)
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == (forged.folder / path.name).read_bytes(), path.name


def test_making_one_leaves_torchs_own_random_state_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    forge.save(tiny(), tmp_path)
    assert torch.equal(state, torch.get_rng_state())


def test_a_changed_size_is_a_new_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path))
    assert forge.materialize(tiny()) == forge.materialize(tiny())
    assert forge.materialize(tiny()) != forge.materialize(tiny(vocab_size=310))


def test_matrices_are_scaled_by_what_they_sum_over() -> None:
    """Conv1D keeps [in, out]; experts of gpt_oss keep [experts, in, out]: the wrong axis would be off by its ratio."""
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=300))
    redraw(gpt2, 0)
    assert float(gpt2.transformer.h[0].mlp.c_proj.weight.std()) == pytest.approx(256**-0.5, rel=0.1)
    sizes = {"hidden_size": 64, "intermediate_size": 256, "head_dim": 16, "vocab_size": 300, "num_hidden_layers": 1}
    oss = GptOssForCausalLM(GptOssConfig(**sizes, num_local_experts=4, num_attention_heads=4, num_key_value_heads=2))
    redraw(oss, 0)
    mlp = oss.model.layers[0].mlp
    assert float(mlp.experts.gate_up_proj.std()) == pytest.approx(64**-0.5, rel=0.1)
    assert float(mlp.experts.down_proj.std()) == pytest.approx(256**-0.5, rel=0.1)
    assert float(mlp.experts.down_proj_bias.std()) == pytest.approx(0.3, rel=0.3)
    assert float(mlp.router.weight.std()) == pytest.approx(2 * 64**-0.5, rel=0.3)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"vocab_size": 258}, "vocab_size 258 is too small for 259 byte tokens"),
        ({"n_head": 3}, "no model runs with these sizes"),
        ({"n_layer": "two"}, "the gpt2 config refuses these keys"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(keys: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=says) as caught:
        forge.save(tiny(**keys), tmp_path)
    assert "\n" not in str(caught.value)


def test_a_model_type_transformers_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model type 'gpt-2'; did you mean 'gpt2'"):
        forge.save(tiny("gpt-2"), tmp_path)


def test_the_reference_config_is_the_specs(forged: Any) -> None:
    checkpoint = forged.family.checkpoints[0]
    config = checkpoints.reference_config(forged.family, checkpoint)
    assert config.architectures == [forged.family.architecture]
    assert str(config.dtype).removeprefix("torch.") == checkpoint.dtype
    assert {key: getattr(config, key) for key in checkpoint.config if key != "rope_parameters"} == {
        key: value for key, value in checkpoint.config.items() if key != "rope_parameters"
    }
