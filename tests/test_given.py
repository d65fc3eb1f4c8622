"""What a hurried hand gives the library: keywords, names, prompts, numbers of blocks. One line says what is wrong."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, encoded, folder, full

from nnpedia import (
    CheckpointError,
    NnpediaError,
    NoSuchBlock,
    PaddingWarning,
    PromptError,
    StandardizedTransformer,
    UnknownKeyword,
)
from nnpedia.errors import ModelError

pytestmark = pytest.mark.usefixtures("one_thread")


def refused(kind: type[NnpediaError], ask: Callable[[], Any]) -> str:
    """The one line of an error that is the library's own."""
    with pytest.raises(kind) as caught:
        ask()
    assert type(caught.value).__module__ == "nnpedia.errors"
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


# -- keywords -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keyword", "says"),
    [
        ("atn_implementation", "no keyword 'atn_implementation'; did you mean 'attn_implementation'?"),
        ("attention_implementation", "did you mean 'attn_implementation'?"),
        ("dype", "did you mean 'dtype'?"),
        ("use_safetensor", "did you mean 'use_safetensors'?"),
        ("num_hiden_layers", "did you mean 'num_hidden_layers'?"),
        ("banana", "neither from_pretrained nor the config has one"),
        ("task", "the library's own to set"),
        ("rename", "the library's own to set"),
    ],
)
def test_an_unknown_keyword_is_refused_with_the_nearest(keyword: str, says: str) -> None:
    """Not when the weights load, and not never: the experiment would run on another load than was meant."""
    text = refused(UnknownKeyword, lambda: StandardizedTransformer(folder("llama"), **{keyword: "eager"}))
    assert says in text
    with pytest.raises(TypeError):  # as Python's own would be
        StandardizedTransformer(folder("llama"), **{keyword: "eager"})


def the_dtype(dtype: torch.dtype) -> Callable[[Any], bool]:
    return lambda model: model._module.lm_head.weight.dtype == dtype


#: Keywords that from_pretrained, the pipeline, nnsight or the config take, and what shows that they did.
TAKEN: list[tuple[dict[str, Any], Callable[[Any], bool]]] = [
    ({"num_hidden_layers": 1}, lambda model: len(model.layers) == 1),
    ({"rms_norm_eps": 0.5}, lambda model: model._module.model.norm.variance_epsilon == 0.5),
    ({"torch_dtype": "bfloat16"}, the_dtype(torch.bfloat16)),
    ({"dtype": "auto"}, the_dtype(torch.float32)),
    ({"dtype": torch.float16}, the_dtype(torch.float16)),
    ({"dispatch": True}, lambda model: model.dispatched),
    ({"use_safetensors": True, "low_cpu_mem_usage": True, "local_files_only": True}, lambda model: True),
    ({"cache_dir": None, "force_download": False, "token": None, "subfolder": ""}, lambda model: True),
    ({"ignore_mismatched_sizes": True, "weights_only": True, "key_mapping": None}, lambda model: True),
    ({"use_cache": False}, lambda model: model._module.config.use_cache is False),
    ({"trust_remote_code": False, "revision": None, "tokenizer": None}, lambda model: model.tokenizer is not None),
    ({"output_attentions": False}, lambda model: True),
]


@pytest.mark.parametrize(
    ("keywords", "took"), TAKEN, ids=lambda given: ",".join(given) if isinstance(given, dict) else ""
)
def test_what_a_load_takes_goes_on_working(keywords: dict[str, Any], took: Callable[[Any], bool]) -> None:
    model = StandardizedTransformer(folder("llama"), **keywords)
    with torch.no_grad(), model.trace(PROMPT):
        logits = model.logits.save()
    assert logits.isfinite().all()
    assert took(model)


def test_how_a_hub_id_is_fetched_is_the_hubs_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token and a cache folder go to the download; what is loaded then is a folder."""
    from nnpedia.checkpoints import hub

    asked: list[Any] = []
    monkeypatch.setattr(hub, "fetch", lambda *given, **how: asked.append((given[0], how)) or folder("llama"))
    how = {"token": "t", "cache_dir": "here", "local_files_only": True, "force_download": False}
    StandardizedTransformer("someone/something", **how)
    assert asked == [("someone/something", how)]


def test_a_loaded_module_takes_nothing_that_only_a_load_can_do() -> None:
    """It would be passed over without a word."""
    module = full("llama")._module
    for keyword in ("torch_dtype", "num_hidden_layers", "use_safetensors"):
        assert keyword in refused(
            UnknownKeyword, lambda keyword=keyword: StandardizedTransformer(module, **{keyword: 1})
        )
    assert "change nothing" in refused(UnknownKeyword, lambda: StandardizedTransformer(module, num_hidden_layers=1))


# -- checkpoints and devices --------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["", " ", None, 5, [], b"gpt2", {}])
def test_what_names_no_checkpoint_is_told_what_does(nothing: Any) -> None:
    assert "names no checkpoint: give a folder, a Hub id" in refused(
        CheckpointError, lambda: StandardizedTransformer(nothing)
    )


def test_a_file_a_family_and_a_name_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for named in (file, str(file), file.name):
        assert "is a file, not a folder: give the folder" in refused(
            CheckpointError, lambda named=named: StandardizedTransformer(named)
        )
    assert refused(CheckpointError, lambda: StandardizedTransformer("llama")).endswith("there is llama:forge")
    assert "file name too long" in refused(CheckpointError, lambda: StandardizedTransformer("gpt2" * 400))
    assert "is a model already" in refused(CheckpointError, lambda: StandardizedTransformer(full("llama")))


def test_the_device_without_numbers_is_refused() -> None:
    for device in ("meta", torch.device("meta")):
        text = refused(ModelError, lambda device=device: StandardizedTransformer(folder("llama"), device=device))
        assert "model.scan(prompt) tells shapes" in text


# -- blocks -------------------------------------------------------------------------------------


@each_family
def test_a_block_that_is_not_there_is_told_which_are(family: str) -> None:
    model = full(family)
    count = model.num_layers
    for number in (count, count + 6, -count - 1):
        text = refused(NoSuchBlock, lambda number=number: model.layers[number])
        assert text == (
            f"model.layers: there is no block {number}; there are {count} blocks, "
            f"model.layers[0] to model.layers[{count - 1}]"
        )
    assert "'first' is none" in refused(NoSuchBlock, lambda: model.layers["first"])
    with pytest.raises(IndexError):  # as a list's would be
        _ = model.layers[count]
    with pytest.raises(NoSuchBlock), model.trace(PROMPT):
        _ = model.layers[count].layer_output


def test_blocks_are_counted_as_in_a_list() -> None:
    model = full("llama")
    blocks = list(model.layers)
    assert [model.layers[number] for number in (0, -1, torch.tensor(1), "2")] == [
        blocks[0],
        blocks[-1],
        blocks[1],
        blocks[2],
    ]
    assert model.layers[1:] == blocks[1:]
    assert len(blocks) == len(model.layers) == model.num_layers


# -- prompts ------------------------------------------------------------------------------------

NOTHING = ["", [], [""], ["", ""], [[]], torch.zeros(1, 0, dtype=torch.long)]
NO_PROMPT = [None, 5, 3.5, True, b"bytes", [None], [3.5], ["text", 5], torch.tensor([]), torch.tensor(5), {1, 2}]


@pytest.mark.parametrize("way", ["trace", "generate", "invoke"])
@pytest.mark.parametrize("given", [*NOTHING, *NO_PROMPT], ids=repr)
def test_what_is_no_prompt_is_refused(given: Any, way: str) -> None:
    model = full("llama")

    def run() -> None:
        if way == "trace":
            with model.trace(given):
                model.logits.save()
        elif way == "generate":
            with model.generate(given, max_new_tokens=1) as tracer:
                tracer.result.save()
        else:
            with model.trace() as tracer:
                with tracer.invoke(PROMPT):
                    model.logits.save()
                with tracer.invoke(given):
                    model.logits.save()

    text = refused(PromptError, run)
    assert "no tokens" in text or "no prompt" in text
    with torch.no_grad(), model.trace(PROMPT):  # and the next run is as if nothing had been
        logits = model.logits.save()
    assert logits.shape[1] == len(PROMPT)


def test_an_empty_text_among_others_is_told_by_its_row() -> None:
    """Every row needs a token: a row of padding has no last token and no logits that mean anything."""
    model = full("llama")

    def run() -> None:
        with model.trace(["One", "", "Three"]):
            model.logits.save()

    assert refused(PromptError, run).startswith("prompt 1 of 3 (counted from 0) has no tokens")


@pytest.mark.parametrize("ids", [[5, 10**6], torch.tensor([[5, 320]]), [[1, 2], [-3, 1]]], ids=repr)
def test_ids_that_the_model_has_no_embedding_of_are_named(ids: Any) -> None:
    model = full("llama")

    def run() -> None:
        with model.trace(ids):
            model.logits.save()

    assert "is none of the model's, which go from 0 to 319" in refused(PromptError, run)


# -- padding ------------------------------------------------------------------------------------

SHORT = "One"


def traced(model: Any, *given: Any, **keywords: Any) -> tuple[torch.Tensor, list[Any]]:
    """The logits, and the warnings of padding that came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.no_grad(), model.trace(*given, **keywords):
            logits = model.logits.save()
    return logits, [each for each in caught if issubclass(each.category, PaddingWarning)]


@each_family
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_ids_without_a_mask_are_warned_of(family: str, side: str) -> None:
    """And with the mask, or as texts, they give what each prompt gives alone."""
    model = full(family)
    pad = model.tokenizer.pad_token_id
    short, long = (encoded(model, text)["input_ids"][0] for text in (SHORT, PROMPT))
    filling = torch.full((len(long) - len(short),), pad)
    row = torch.cat([filling, short] if side == "left" else [short, filling])
    ids, mask = torch.stack([row, long]), torch.stack([row != pad, long != pad]).long()
    _, warned = traced(model, ids)
    assert [Path(each.filename).name for each in warned] == [Path(__file__).name]
    assert f"padded (id {pad}) and came without attention_mask" in str(warned[0].message)
    assert not traced(model, ids, attention_mask=mask)[1]
    assert not traced(model, {"input_ids": ids, "attention_mask": mask})[1]
    assert not traced(model, [short.tolist(), long.tolist()])[1]
    assert not traced(model, [SHORT, PROMPT])[1]


def test_where_it_warns_and_how_often() -> None:
    """At the line of the run, once, also where only one invoke of several is padded and where it generates."""
    model = full("llama")
    pad = model.tokenizer.pad_token_id
    ids = torch.tensor([[pad, pad, 70, 71]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            with model.trace(ids):
                model.logits.save()
    assert [each.category for each in caught] == [PaddingWarning]
    with pytest.warns(PaddingWarning), model.trace() as tracer:  # noqa: PT031 (a run is a block)
        with tracer.invoke(SHORT):
            model.logits.save()
        with tracer.invoke(ids):
            model.logits.save()
    with pytest.warns(PaddingWarning), model.generate(ids, max_new_tokens=1) as tracer:
        tracer.result.save()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PaddingWarning)
        with pytest.raises(PaddingWarning), model.trace(ids):
            model.logits.save()


def test_a_token_that_begins_every_text_is_no_padding() -> None:
    """GPT-2 pads with the token that begins a text: one of it before each row is a beginning, two are padding."""
    from nnpedia.loading import load_tokenizer

    tokenizer = load_tokenizer(str(folder("llama")))
    tokenizer.pad_token = tokenizer.bos_token
    model, mark = StandardizedTransformer(full("llama")._module, tokenizer=tokenizer), tokenizer.bos_token_id
    assert not traced(model, torch.tensor([[mark, 70, 71], [mark, 72, 73]]))[1]
    assert not traced(model, torch.tensor([mark, 70, 71]))[1]
    assert traced(model, torch.tensor([[mark, mark, 71], [mark, 72, 73]]))[1]
    assert traced(model, torch.tensor([[mark, 70, 71], [70, 72, 73]]))[1]
    assert not traced(model, torch.tensor([[70, mark, 71], [70, 72, 73]]))[1]


# -- two at once --------------------------------------------------------------------------------


def test_a_run_inside_a_run_is_refused_and_the_next_is_as_ever() -> None:
    model = full("llama")
    with pytest.raises(ModelError, match=r"one run at a time: close the first trace"), model.trace(PROMPT):  # noqa: PT012
        _ = model.layers[0].layer_output
        with model.trace(SHORT):
            model.logits.save()
    with torch.no_grad(), model.trace(PROMPT):
        logits = model.logits.save()
    assert logits.shape[1] == len(PROMPT)


def test_a_copy_that_would_not_run_is_refused_and_one_of_the_module_runs() -> None:
    model = full("llama")
    assert "give StandardizedTransformer a copy of the module" in refused(ModelError, lambda: copy.deepcopy(model))
    other = StandardizedTransformer(copy.deepcopy(model._module), tokenizer=model.tokenizer)
    found = []
    for each in (model, other):
        with torch.no_grad(), each.trace(PROMPT):
            found.append(each.logits.clone().save())
    assert torch.equal(*found)
