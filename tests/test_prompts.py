"""What a run is given: one line for what is no prompt, and a warning for padding that the model would read."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from forged import PROMPT, each_family, encoded, folder, full
from refusing import refused

from nnpedia import PaddingWarning, PromptError, StandardizedTransformer
from nnpedia.errors import PromptTooLong

pytestmark = pytest.mark.usefixtures("one_thread")

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


# -- positions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "gpt_bigcode", "gpt_neo", "opt", "codegen", "gptj"])
def test_a_prompt_longer_than_the_table_of_positions_is_told_both_numbers(family: str) -> None:
    model = full(family)
    there = model.text_config.max_position_embeddings

    def run(*rows: int) -> torch.Size:
        ids, shapes = [[7] * length for length in rows], []
        with torch.no_grad(), model.trace(ids if len(ids) > 1 else torch.tensor(ids)):
            shapes.append(model.logits.shape.save())
        return shapes[0]

    assert run(there) == (1, there, model.vocab_size)
    assert refused(PromptTooLong, lambda: run(there + 1)) == (
        f"a prompt has {there + 1} tokens, and the model has {there} positions: give it fewer"
    )
    assert f"has {there + 3} tokens" in refused(IndexError, lambda: run(3, there + 3))


def test_rotary_positions_have_no_end() -> None:
    model = full("llama")
    with torch.no_grad(), model.trace(torch.full((1, model.text_config.max_position_embeddings + 1), 7)):
        logits = model.logits.save()
    assert logits.isfinite().all()


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
