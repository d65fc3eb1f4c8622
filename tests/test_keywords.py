"""Keywords of a load and of a run: what nothing takes is refused with the nearest, what something takes works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, folder, full
from refusing import refused

from nnpedia import StandardizedTransformer, UnknownKeyword

pytestmark = pytest.mark.usefixtures("one_thread")


# -- of a load ----------------------------------------------------------------------------------


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


# -- of a run -----------------------------------------------------------------------------------


def run(model: Any, way: str, *given: Any, **keywords: Any) -> Any:
    """The logits of a trace, or the ids of a generation, with keywords of the run or of an invoke."""
    if way == "trace":
        with torch.no_grad(), model.trace(*given, **keywords):
            found = model.logits.save()
    elif way == "generate":
        with torch.no_grad(), model.generate(*given, **keywords) as tracer:
            found = tracer.result.save()
    elif way == "plainly":
        found = model.generate(*given, **keywords)
    else:
        with torch.no_grad(), model.trace() as tracer:  # noqa: SIM117 (an invoke is a block of its own)
            with tracer.invoke(*given, **keywords):
                found = model.logits.save()
    return found


@pytest.mark.parametrize(
    ("way", "keyword", "says"),
    [
        (
            "trace",
            "max_new_token",
            "no keyword 'max_new_token' of a trace; did you mean 'max_new_tokens', of model.gen",
        ),
        ("trace", "max_new_tokens", "a trace makes one forward, and 'max_new_tokens' is of model.generate"),
        ("trace", "use_cach", "did you mean 'use_cache'?"),
        ("trace", "scan", "no keyword 'scan' of a trace: neither nnsight nor the model has one"),
        ("invoke", "atention_mask", "did you mean 'attention_mask'?"),
        ("generate", "max_new_token", "no keyword 'max_new_token' of a generation; did you mean 'max_new_tokens'?"),
        ("generate", "num_beam", "did you mean 'num_beams'?"),
        ("plainly", "temprature", "did you mean 'temperature'?"),
    ],
)
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_keyword_that_a_run_would_pass_over_is_refused(family: str, way: str, keyword: str, says: str) -> None:
    """A forward takes any keyword and drops it: the run would be another than the one that was meant."""
    model = full(family)
    assert says in refused(UnknownKeyword, lambda: run(model, way, PROMPT, **{keyword: 1}))
    assert run(model, "trace", PROMPT).shape[1] == len(PROMPT)  # and the next run is as if nothing had been


def test_a_keyword_of_the_run_around_its_invokes_is_looked_at_too() -> None:
    model = full("llama")

    def misspelt() -> None:
        with model.generate(max_new_token=3) as tracer:  # noqa: SIM117
            with tracer.invoke(PROMPT):
                model.logits.save()

    assert "did you mean 'max_new_tokens'?" in refused(UnknownKeyword, misspelt)


FORWARDS = [
    {"use_cache": False},
    {"logits_to_keep": 1},
    {"output_attentions": True, "output_hidden_states": True},
    {"return_dict": True},
    {"cache": None},
    {"position_ids": torch.arange(len(PROMPT)).unsqueeze(0)},
    {"labels": torch.ones(1, len(PROMPT), dtype=torch.long)},
    {"truncation": True, "max_length": 5},
    {"add_special_tokens": False, "padding": True},
    {"remote": False, "backend": None},
]


@pytest.mark.parametrize("keywords", FORWARDS, ids=lambda keywords: ",".join(keywords))
def test_what_a_forward_takes_goes_on_working(keywords: dict[str, Any]) -> None:
    for family in ("llama", "gpt2"):
        assert run(full(family), "trace", PROMPT, **keywords).isfinite().all()


@pytest.mark.parametrize(
    "keywords",
    [
        {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "top_k": 5},
        {"num_beams": 2, "num_return_sequences": 2},
        {"eos_token_id": 3, "pad_token_id": 3, "use_cache": False},
        {"stop_strings": ["a"], "tokenizer": None},
        {"streamer": None, "logits_processor": [], "stopping_criteria": []},
    ],
    ids=lambda keywords: ",".join(keywords),
)
def test_what_a_generation_takes_goes_on_working(keywords: dict[str, Any]) -> None:
    model = full("llama")
    keywords = {key: model.tokenizer if key == "tokenizer" else value for key, value in keywords.items()}
    for way in ("generate", "plainly"):
        assert run(model, way, PROMPT, max_new_tokens=2, **keywords).shape[1] > len(PROMPT)


@each_family
def test_an_encoding_is_taken_by_keyword(family: str) -> None:
    model = full(family)
    encoding = dict(model.tokenizer(PROMPT, return_tensors="pt"))
    assert torch.equal(run(model, "trace", **encoding), run(model, "trace", PROMPT))
