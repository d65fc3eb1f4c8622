"""Several prompts at once: each keeps its own numbers, and no edit leaks from one to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from forged import FAMILIES, PROMPT, each_family, full, is_mixture, spec
from reading import Spot, blocks_with, epsilons, everything, in_order, reading

from nnpedia import Unavailable

pytestmark = pytest.mark.usefixtures("one_thread")

SHORT = "Two plus two"

#: Attention sums over padding too, whose weights are exactly zero, and matrix products block their sums by
#: the batch's shape: sums of the same terms in another order. The largest distance seen is ten epsilons.
ROUNDING = 16
#: A softmax makes an error relative that was absolute, and logits of ten carry ten times their own: 26 epsilons seen.
ROUNDING_OF_PROBABILITIES = 32
#: A recurrence carries what each token rounded. One epsilon on the embeddings of the forged hybrids becomes 48 to 196
#: epsilons further on (7 on a Llama); between a prompt alone and in a batch the largest distance seen is 56.
ROUNDING_OF_RECURRENCES = 64
#: Scores that no root of the width divides are that much larger, and a softmax of them is sharper. One epsilon on the
#: embeddings of the forged Gemma 4 alone is 17 after its sixth block (8 on Gemma 3, 4 on a Llama of three blocks);
#: between a prompt alone and in a batch the largest distance seen is 19.
ROUNDING_OF_BARE_SCORES = 32


def bound(family: str, name: str) -> float:
    """How many epsilons a value of a prompt in a batch may be from the same prompt's alone."""
    if "recurrent" in spec(family).parts:
        return ROUNDING_OF_RECURRENCES
    if name == "next_token_probs":
        return ROUNDING_OF_PROBABILITIES
    bare = "attention" in spec(family).parts and getattr(full(family).layers[0].self_attn.module, "scaling", None) == 1
    return ROUNDING_OF_BARE_SCORES if bare else ROUNDING


each_side = pytest.mark.parametrize("side", ["left", "right"])
each_mixture = pytest.mark.parametrize("family", [name for name in FAMILIES if is_mixture(name)])


@contextmanager
def padding(model: Any, side: str) -> Iterator[None]:
    before, model.tokenizer.padding_side = model.tokenizer.padding_side, side
    try:
        yield
    finally:
        model.tokenizer.padding_side = before


def real(family: str, spot: Spot, row: torch.Tensor, tokens: int, side: str) -> torch.Tensor:
    """One prompt's row of a value, `[1 …]`, cut to its real tokens on every axis that counts tokens."""
    for axis, name in enumerate(spec(family).axes(spec(family).values[spot[1]][spot[2]])):
        if name in ("seq", "query", "key"):
            start = row.shape[axis] - tokens if side == "left" else 0
            row = row.narrow(axis, start, tokens)
    return row


def comparable(spot: Spot, value: torch.Tensor) -> torch.Tensor:
    """Scores below the largest of their query: slopes that count from the end of the call shift them all alike."""
    return value - value.amax(-1, keepdim=True) if spot[2] == "attention_scores" else value


def rows_differ(family: str, batch: Any, row: int, alone: Any, tokens: int, side: str) -> dict[Spot, float]:
    """The values of a batch whose row is not what the prompt has alone, with the distance in epsilons."""
    far = {}
    for spot, value in alone.items():
        if spot[2] == "state_output" and side == "right":
            continue  # the state of the call's end, past the padding: see the test of what padding does to a state
        if isinstance(value, torch.Tensor) and not isinstance(batch[spot], Exception):
            cut = real(family, spot, batch[spot][row : row + 1], tokens, side)
            distance = epsilons(comparable(spot, cut), comparable(spot, value))
            if not distance <= bound(family, spot[2]):
                far[spot] = distance
        elif isinstance(value, torch.Tensor):
            far[spot] = batch[spot]
    return far


@each_side
@each_family
def test_a_padded_prompt_has_the_numbers_it_has_alone(family: str, side: str) -> None:
    """Every value of every block, of the short prompt and of the long one it is padded to."""
    from nnpedia.observe import read, spots_of

    model = full(family)
    with padding(model, side):
        batch = read(model, spots_of(model), [PROMPT, SHORT])
    for row, prompt in enumerate((PROMPT, SHORT)):
        assert rows_differ(family, batch, row, everything(model, prompt), len(prompt), side) == {}
    assert batch[None, "model", "input_size"] == [2, len(PROMPT)]
    assert batch[None, "model", "attention_mask"].sum(1).tolist() == [len(PROMPT), len(SHORT)]


@each_family
def test_an_invoke_has_the_numbers_its_prompt_has_alone(family: str) -> None:
    """Every value of every block, read in order inside each of two invokes of one trace."""
    model = full(family)
    spots = in_order(model)
    found: list[dict[Spot, Any]] = [{}, {}]
    with model.trace() as tracer:
        with tracer.invoke(SHORT):
            reading(model, spots, found[0])
        with tracer.invoke(PROMPT):
            reading(model, spots, found[1])
    for batch, prompt in zip(found, (SHORT, PROMPT), strict=True):
        assert rows_differ(family, batch, 0, everything(model, prompt), len(prompt), "left") == {}
        assert batch[None, "model", "input_size"] == [1, len(PROMPT)]


@each_family
def test_invokes_of_several_prompts_have_as_many_rows(family: str) -> None:
    """The second of two invokes, with two prompts: rows one and two of three."""
    model = full(family)
    spots = in_order(model)
    found: list[dict[Spot, Any]] = [{}, {}]
    with model.trace() as tracer:
        with tracer.invoke(PROMPT):
            reading(model, spots, found[0])
        with tracer.invoke([SHORT, PROMPT]):
            reading(model, spots, found[1])
    assert rows_differ(family, found[1], 0, everything(model, SHORT), len(SHORT), "left") == {}
    assert rows_differ(family, found[1], 1, everything(model, PROMPT), len(PROMPT), "left") == {}
    assert found[1][None, "model", "input_size"] == [2, len(PROMPT)]
    rows = {
        len(value)
        for spot, value in found[1].items()
        if isinstance(value, torch.Tensor) and "batch" in spec(family).axes(spec(family).values[spot[1]][spot[2]])
    }
    assert rows == {2}


# -- edits --------------------------------------------------------------------------------------


def assignable(family: str) -> list[Spot]:
    """Every value that is a place in the forward, on a block with a block after it where there is one."""
    spots = [spot for spot, value in everything(full(family)).items() if isinstance(value, torch.Tensor)]
    first = min(spot[0] for spot in spots if spot[0] is not None)
    return [
        spot
        for spot in spots
        if spot[0] in (None, first)
        and spec(family).values[spot[1]][spot[2]].at is not None
        and spec(family).values[spot[1]][spot[2]].reaches == "logits"
        and spot[2] not in ("attention_mask", "input_ids", "logits")
    ]


def disturbed(model: Any, spot: Spot, value: torch.Tensor) -> torch.Tensor:
    from nnpedia.writes import disturbance

    return disturbance(model, spot)(value)


@each_family
def test_an_edit_in_one_row_leaves_the_other_prompt_alone(family: str) -> None:
    """Row 1 edited in place, at every value: row 1's logits move, row 0's are the same bits."""
    from nnpedia.observe import read
    from nnpedia.writes import LOGITS

    model = full(family)
    clean = read(model, [LOGITS], [PROMPT, SHORT])[LOGITS]
    wrong = {}
    for spot in assignable(family):

        def edit(value: torch.Tensor, spot: Spot = spot) -> None:
            value[1] = disturbed(model, spot, value)[1]

        logits = read(model, [LOGITS], [PROMPT, SHORT], edits={spot: edit})[LOGITS]
        moved = [not torch.equal(logits[row], clean[row]) for row in (0, 1)]
        if moved != [False, True]:
            wrong[spot] = moved
    assert wrong == {}


def edited_invoke(model: Any, spot: Spot, edit: Callable[[Any, str], None]) -> list[torch.Tensor]:
    """Logits of two invokes, the second of which edits a value."""
    from nnpedia.observe import host_at

    host = host_at(model, spot[0], spot[1])
    with model.trace() as tracer:
        with tracer.invoke(SHORT):
            first = model.logits.clone().save()
        with tracer.invoke(PROMPT):
            edit(host, spot[2])
            second = model.logits.clone().save()
    return [first, second]


@pytest.mark.parametrize("way", ["assigned", "in place"])
@each_family
def test_an_edit_in_one_invoke_leaves_the_other_alone(family: str, way: str) -> None:
    """The second invoke edits every value in turn: its logits move, the first's are the same bits."""
    model = full(family)
    wrong = {}
    for spot in assignable(family):

        def edit(host: Any, name: str, spot: Spot = spot) -> None:
            value = getattr(host, name)
            if way == "assigned":
                setattr(host, name, disturbed(model, spot, value))
            else:
                value.copy_(disturbed(model, spot, value))

        clean = edited_invoke(model, spot, lambda host, name: None)
        with torch.no_grad():
            logits = edited_invoke(model, spot, edit)
        moved = [not torch.equal(one, other) for one, other in zip(logits, clean, strict=True)]
        if moved != [False, True]:
            wrong[spot] = moved
    assert wrong == {}


# -- the next token -----------------------------------------------------------------------------


@each_side
@each_family
def test_the_next_token_is_that_of_the_last_real_token(family: str, side: str) -> None:
    """On either padding side, and never of a padding position."""
    model = full(family)
    alone = [everything(model, prompt)[None, "model", "logits"][:, -1].softmax(-1) for prompt in (PROMPT, SHORT)]
    with padding(model, side):
        with model.trace([PROMPT, SHORT]):
            batch = model.next_token_probs.save()
        with model.trace() as tracer:
            with tracer.invoke(SHORT):
                short = model.next_token_probs.save()
            with tracer.invoke(PROMPT):
                long = model.next_token_probs.save()
    for found, expected in [(batch[:1], alone[0]), (batch[1:], alone[1]), (short, alone[1]), (long, alone[0])]:
        assert found.shape == expected.shape
        assert epsilons(found, expected) < bound(family, "next_token_probs")


@pytest.mark.parametrize("family", ["llama"])
def test_the_next_token_is_that_of_the_last_real_token_also_of_some_logits(family: str) -> None:
    """`logits_to_keep` as a number or as positions, and one line where it leaves the position out."""
    model = full(family)
    with model.trace(PROMPT):
        ids = model.input_ids.save()
        expected = model.next_token_probs.save()
    seq = ids.shape[1]
    for keep in (1, 2, torch.tensor([seq - 1, 0]), torch.tensor([0, -1])):
        with model.trace(PROMPT, logits_to_keep=keep):
            found = model.next_token_probs.save()
        assert epsilons(found, expected) < bound(family, "next_token_probs")
    for keep in (torch.tensor([0]), torch.tensor([0, 1])):
        with pytest.raises(Unavailable, match="logits_to_keep leaves out"):  # noqa: SIM117 (a trace stands alone)
            with model.trace(PROMPT, logits_to_keep=keep):
                model.next_token_probs.save()
    with padding(model, "right"), pytest.raises(Unavailable, match="logits_to_keep leaves out"):  # noqa: SIM117
        with model.trace([PROMPT, SHORT], logits_to_keep=1):
            model.next_token_probs.save()


# -- decode steps -------------------------------------------------------------------------------

STEPS = 3


def step_spots(family: str) -> list[Spot]:
    """Values of the last block whose rows nnsight cuts, or we do, and the logits."""
    model = full(family)
    layer = model.num_layers - 1
    return [
        spot for spot in in_order(model) if spot[0] == layer and isinstance(everything(model)[spot], torch.Tensor)
    ] + [(None, "model", "logits")]


def generated(model: Any, spots: list[Spot], *prompts: str, **options: Any) -> list[list[dict[Spot, Any]]]:
    """Per prompt, per step, the values at `spots`; each prompt an invoke of one generation."""
    found: list[list[dict[Spot, Any]]] = [[{} for _ in range(STEPS)] for _ in prompts]
    options = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, "use_cache": True, **options}
    with model.generate(**options) as tracer:
        for steps, prompt in zip(found, prompts, strict=True):
            with tracer.invoke(prompt):
                for step in tracer.iter[:STEPS]:
                    reading(model, [(None, "model", "input_size"), *spots], steps[step])
    return found


@each_family
def test_each_invoke_has_its_own_rows_in_every_step_of_a_generation(family: str) -> None:
    """Also where one token a prompt makes a flat axis as long as the batch."""
    model = full(family)
    spots = step_spots(family)
    together = generated(model, spots, SHORT, PROMPT)
    for prompt, steps in zip((SHORT, PROMPT), together, strict=True):
        (alone,) = generated(model, spots, prompt)
        for step, (found, expected) in enumerate(zip(steps, alone, strict=True)):
            assert found.pop((None, "model", "input_size")) == [1, len(PROMPT) if step == 0 else 1]
            assert expected.pop((None, "model", "input_size")) == [1, len(prompt) if step == 0 else 1]
            for spot, value in expected.items():
                distance = epsilons(last_tokens(family, spot, found[spot], value), value)
                assert distance < bound(family, spot[2]), (step, spot)


def last_tokens(family: str, spot: Spot, padded: torch.Tensor, alone: torch.Tensor) -> torch.Tensor:
    """A left-padded row cut to the tokens, cached ones included, that it has alone."""
    for axis, name in enumerate(spec(family).axes(spec(family).values[spot[1]][spot[2]])):
        if name in ("seq", "query", "key"):
            padded = padded.narrow(axis, padded.shape[axis] - alone.shape[axis], alone.shape[axis])
    return padded


@each_mixture
@pytest.mark.parametrize("prompts", [1, 2])
def test_a_mixture_keeps_its_rows_apart_under_beams(family: str, prompts: int) -> None:
    """Beams repeat each prompt: a prompt's rows are all of its beams', of that prompt only."""
    model = full(family)
    layer = blocks_with(family, "mlp", "router_logits")[0]
    host, beams = model.layers[layer].mlp, 3
    logits: list[Any] = [[], []]
    streams: list[Any] = [[], []]
    with model.generate(max_new_tokens=STEPS, min_new_tokens=STEPS, num_beams=beams, do_sample=False) as tracer:
        for index, prompt in enumerate((SHORT, PROMPT)[:prompts]):
            with tracer.invoke(prompt):
                for _step in tracer.iter[:STEPS]:
                    streams[index].append(model.layers[layer].mlp_input.clone())
                    logits[index].append(host.router_logits.clone())
    for index, prompt in enumerate((SHORT, PROMPT)[:prompts]):
        assert len(logits[index]) == STEPS
        alone = everything(model, prompt)[layer, "mlp", "router_logits"]
        for beam in logits[index][0]:
            assert epsilons(beam[-len(prompt) :], alone[0]) < bound(family, "router_logits")
        for stream, scores in zip(streams[index], logits[index], strict=True):
            assert stream.shape[0] == scores.shape[0] == beams
            router = host.router._module
            affine = torch.nn.functional.linear(stream, router.weight, getattr(router, "bias", None))
            assert epsilons(affine, scores) < ROUNDING


@each_mixture
@pytest.mark.parametrize("way", ["assigned", "in place"])
def test_a_flat_value_edited_in_a_decode_step_reaches_its_own_row(family: str, way: str) -> None:
    """The second step of the second of two prompts: its experts change there, the other prompt's do not."""
    model = full(family)
    mixture = model.layers[blocks_with(family, "mlp", "expert_weights")[0]].mlp

    def run(edit: bool) -> list[list[torch.Tensor]]:
        chosen: list[list[torch.Tensor]] = [[], []]
        with torch.no_grad(), model.generate(max_new_tokens=2, min_new_tokens=2, do_sample=False) as tracer:
            with tracer.invoke(SHORT):
                for _step in tracer.iter[:2]:
                    chosen[0].append(mixture.routed_output.clone())
            with tracer.invoke(PROMPT):
                for step in tracer.iter[:2]:
                    if edit and step == 1 and way == "assigned":
                        mixture.expert_weights = torch.zeros_like(mixture.expert_weights)
                    elif edit and step == 1:
                        mixture.expert_weights[:] = 0
                    chosen[1].append(mixture.routed_output.clone())
        return chosen

    clean, edited = run(False), run(True)
    assert [len(steps) for steps in edited] == [2, 2]
    assert torch.equal(edited[0][0], clean[0][0])
    assert torch.equal(edited[0][1], clean[0][1])
    assert torch.equal(edited[1][0], clean[1][0])
    assert clean[1][1].any()
    assert not edited[1][1].any()
