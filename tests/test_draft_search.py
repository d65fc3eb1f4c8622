"""What drafts search for: the tensors of a recurrence, weighted experts, and a stream normed after its sums."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from nnpedia.draft.block import see_block
from nnpedia.draft.places import same
from nnpedia.draft.recording import Event, Recording
from nnpedia.draft.recurring import see_recurrence

BATCH, SEQ, HEADS, KEY, VALUE, CHANNELS, STATE = 2, 5, 3, 7, 4, 6, 8


class Forward:
    """A recording written by hand: each tensor at an operation of the module `mixer`."""

    def __init__(self) -> None:
        self.recording = Recording()

    def holds(self, operation: str, tensor: Tensor, access: str = "output") -> None:
        order = len(self.recording.events)
        self.recording.events.append(Event(order, "mixer", (operation,), access, (), tensor, tensor))


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape)


def by_heads(delta: bool, skip: Tensor | None = None) -> tuple[Forward, dict[str, Tensor]]:
    """A recurrence of heads among tensors of the same shapes that are no part of it."""
    torch.manual_seed(5)
    parts = {
        "keys": drawn(BATCH, SEQ, HEADS, KEY), "queries": drawn(BATCH, SEQ, HEADS, KEY),
        "values": drawn(BATCH, SEQ, HEADS, VALUE), "betas": torch.rand(BATCH, SEQ, HEADS),
        "decays": -torch.rand(BATCH, SEQ, HEADS),
    }  # fmt: skip
    state, read = torch.zeros(BATCH, HEADS, KEY, VALUE), []
    for token in range(SEQ):
        key, value = parts["keys"][:, token, :, :, None], parts["values"][:, token, :, None, :]
        state = state * parts["decays"][:, token, :, None, None].exp()
        held = (state * key).sum(2, keepdim=True) if delta else 0.0
        state = state + key * (value - held) * parts["betas"][:, token, :, None, None]
        read.append((state * parts["queries"][:, token, :, :, None]).sum(2))
    parts["head_outputs"] = torch.stack(read, 1) + (0.0 if skip is None else parts["values"] * skip[:, None])
    made = Forward()
    made.holds("hidden_0", drawn(BATCH, SEQ, 48))
    for name in ("keys", "queries", "values", "betas", "decays"):
        made.holds(f"like_{name}_0", parts[name] * 1.5 + 0.25)
        made.holds(f"{name}_0", parts[name])
    made.holds("out_0", parts["head_outputs"])
    made.holds("cache_update_recurrent_state_0", state, "input")
    return made, parts


@pytest.mark.parametrize("delta", [True, False])
def test_the_recurrence_of_heads_is_found_among_what_looks_like_it(delta: bool) -> None:
    made, parts = by_heads(delta)
    found = see_recurrence(made.recording, nn.Module(), "mixer")
    assert found is not None
    assert found.reader == f"recurrence.{'delta' if delta else 'additive'}_states"
    for name, tensor in parts.items():
        assert same(found.targets[name], tensor), name


def test_what_a_skip_adds_belongs_to_the_outputs() -> None:
    module = nn.Module()
    module.D = nn.Parameter(torch.tensor([0.5, 1.5, 2.5]))
    made, parts = by_heads(False, module.D.detach())
    found = see_recurrence(made.recording, module, "mixer")
    assert found is not None
    assert same(found.targets["head_outputs"], parts["head_outputs"])
    assert see_recurrence(made.recording, nn.Module(), "mixer") is None


@pytest.mark.parametrize("name", ["keys", "values", "betas", "decays", "queries"])
def test_a_recurrence_with_a_part_missing_is_not_found(name: str) -> None:
    """The tensor that only looks like the part must not be taken for it."""
    made, _ = by_heads(True)
    made.recording.events = [event for event in made.recording.events if event.operations != (f"{name}_0",)]
    assert see_recurrence(made.recording, nn.Module(), "mixer") is None


def test_rates_and_values_of_channels_are_told_apart_by_the_decays() -> None:
    torch.manual_seed(6)
    keys, queries = drawn(BATCH, SEQ, STATE), drawn(BATCH, SEQ, STATE)
    values, betas = torch.rand(BATCH, SEQ, CHANNELS) + 0.1, torch.rand(BATCH, SEQ, CHANNELS) + 0.1
    decays = -betas.unsqueeze(-1) * (torch.rand(CHANNELS, STATE) + 0.1)
    state, read = torch.zeros(BATCH, CHANNELS, STATE), []
    for token in range(SEQ):
        write = (betas * values)[:, token, :, None] * keys[:, token, None, :]
        state = state * decays[:, token].exp() + write
        read.append((state * queries[:, token, None, :]).sum(-1))
    made = Forward()
    made.holds("hidden_0", drawn(BATCH, SEQ, 48))
    for tensor in (values, betas, keys, queries, decays, torch.stack(read, 1)):
        made.holds(f"place_{len(made.recording.events)}", tensor)
    made.holds("cache_update_recurrent_state_0", state, "input")
    found = see_recurrence(made.recording, nn.Module(), "mixer")
    assert found is not None
    assert torch.equal(found.targets["betas"], betas)
    assert torch.equal(found.targets["values"], values)
    assert found.layouts["states"] == "ChannelStates"


def test_a_stream_that_is_normed_after_each_sum_is_solved() -> None:
    """GPT's first block: a norm stands on the stream itself, and the contributions are what went into it.

    Its scores are masked by a finite number, so that queries and keys are told below the diagonal only.
    """
    from nnpedia.draft.mixing import see_attention
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.recording import record
    from nnpedia.draft.trial import tokens, trial

    made = trial(open_subject("openai-gpt"))
    recording = record(made.model, tokens())
    block = see_block(made.model, recording, "transformer.h.0", 0, {})
    assert block.sums == ("ln_1", "ln_2")
    assert [(part.role, part.host) for part in block.sublayers] == [
        ("attention", "transformer.h.0.attn"),
        ("mlp", "transformer.h.0.mlp"),
    ]
    assert [part.norm for part in block.sublayers] == [None, None]
    assert block.mid is not None
    with torch.no_grad():
        summed = block.entering + block.sublayers[0].contribution
        assert torch.allclose(made.model.transformer.h[0].ln_1(summed), block.mid, atol=1e-5)
    attention = see_attention(made.model, recording, block, block.sublayers[0], {})
    queries, keys = (attention.targets[f"attention_{name}"][0] for name in ("queries", "keys"))
    dots = (queries @ keys.transpose(2, 3) / queries.shape[-1] ** 0.5).tril()
    assert torch.allclose(dots, attention.targets["attention_scores"][0].tril(), atol=1e-4)


@pytest.mark.parametrize("how", ["plain", "scaled", "normed", "beside"])
def test_a_shared_expert_is_what_is_added_to_the_routed_ones(how: str) -> None:
    """Times a number of the config, before a norm of the mixture's own, or by an MLP that stands beside the mixture."""
    from nnpedia.draft.feeding import Feeding
    from nnpedia.draft.sharing import see_shared
    from nnpedia.draft.tree import Block, Sublayer

    torch.manual_seed(8)
    routed, shared = drawn(BATCH, SEQ, 6), drawn(BATCH, SEQ, 6)
    total = routed * (2.5 if how == "scaled" else 1.0) + shared
    contribution = total.relu() if how == "normed" else 0.5 * total if how == "beside" else total
    recording = Recording()

    def holds(module: str, operations: tuple[str, ...], tensor: Tensor) -> None:
        recording.events.append(Event(len(recording.events), module, operations, "output", (), tensor, tensor))

    holds("block.mlp.experts", (), routed)
    holds("block.mlp.other", (), drawn(BATCH, SEQ, 6))
    holds("block.shared" if how == "beside" else "block.mlp.shared", (), shared)
    holds("block" if how == "beside" else "block.mlp", ("add_0",), total)
    holds("block.mlp", (), routed if how == "beside" else contribution)
    block = Block(0, "block", drawn(BATCH, SEQ, 6), contribution)
    part = Sublayer(
        "mlp", "block.mlp", contribution, block.entering, beside="block.shared" if how == "beside" else None
    )
    found = Feeding()
    see_shared(recording, block, part, routed, found, {"config.routed_scaling_factor": 2.5})
    assert torch.equal(found.targets["shared_expert_output"][0], shared)
    assert found.roles == ({} if how == "beside" else {"shared_expert": "block.mlp.shared"})


def test_experts_that_read_weighted_tokens_are_told_by_what_they_read(tmp_path: Path) -> None:
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.sighting import see
    from nnpedia.draft.trial import trial
    from nnpedia.vocabulary import load_vocabulary

    seen = see(trial(open_subject("llama4_text")), load_vocabulary(Path(__file__).parent.parent / "families"))
    kind = next(kind for kind in seen.kinds if kind.feeding and kind.feeding.mixture)
    feeding, mlp = kind.feeding, kind.block.of("mlp")
    assert feeding is not None
    assert mlp is not None
    assert feeding.layouts["expert_weights"] == "EveryExpertWeight"
    whole = feeding.targets["routed_output"][0] + feeding.targets["shared_expert_output"][0]
    assert torch.allclose(whole, mlp.contribution, atol=1e-5)
    weights = feeding.targets["expert_weights"][0]
    assert ((weights != 0).sum(-1) == 1).all()
    assert torch.equal(weights.argmax(-1, keepdim=True), feeding.targets["expert_indices"][0])


@pytest.mark.parametrize(("gate", "gated"), [("up", False), ("gate", True), ("fused", True), ("half", False)])
def test_a_product_of_one_projection_with_itself_has_no_gate(gate: str, gated: bool) -> None:
    """`relu(up) * up` is a tensor times the up projection and is `relu(up) ** 2`; a gate is of another projection."""
    from nnpedia.draft.gating import stays
    from nnpedia.draft.recording import record

    torch.manual_seed(7)
    model, ids = Gating(gate), torch.randint(0, 20, (2, 5))
    seen = record(model, ids)
    projection, part = ("both", slice(6, None)) if gate in ("fused", "half") else ("up", slice(None))
    made, product = seen.at(projection, (), "output", ()), seen.at("down", (), "input", ())
    side = seen.at("act", (), "output", ())
    assert made is not None
    assert product is not None
    assert side is not None
    assert torch.equal(side.tensor * made.tensor[..., part], product.tensor)
    assert stays(model, ids, side, projection, part) is gated


class Gating(nn.Module):
    """An MLP over embeddings: its activation is of the up projection, a gate, or a half of one projection."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.which = gate
        self.embed, self.down, self.act = nn.Embedding(20, 4), nn.Linear(6, 4), nn.ReLU()
        self.up, self.gate, self.both = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 12)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed(input_ids)
        up, gate, (first, second) = self.up(x), self.gate(x), self.both(x).chunk(2, -1)
        if self.which in ("fused", "half"):
            return cast(Tensor, self.down(self.act(first if self.which == "fused" else second) * second))
        return cast(Tensor, self.down(self.act(up if self.which == "up" else gate) * up))


@pytest.mark.parametrize(
    ("name", "host", "named"),
    [
        ("hunyuan_v1_dense", "self_attn", {"query_layernorm": "q_norm", "key_layernorm": "k_norm"}),
        ("nanochat", "self_attn", {}),  # norms without weights, by which queries and keys cannot be told apart
        ("olmo_hybrid", "linear_attn", {"o_norm": "gated_norm", "o_proj": "out_proj"}),
    ],
)
def test_the_modules_of_a_mixer_are_named_by_what_they_do(name: str, host: str, named: dict[str, str]) -> None:
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.sighting import see
    from nnpedia.draft.trial import trial
    from nnpedia.vocabulary import load_vocabulary

    seen = see(trial(open_subject(name)), load_vocabulary(Path(__file__).parent.parent / "families"))
    assert seen.names.tables.get(host, {}) == named


def test_a_number_of_a_blocks_own_scales_all_that_leaves_it() -> None:
    from nnpedia.draft.making import made_forms
    from nnpedia.draft.opening import open_subject
    from nnpedia.draft.sighting import see
    from nnpedia.draft.trial import trial
    from nnpedia.vocabulary import load_vocabulary

    seen = see(trial(open_subject("gemma4_unified_text")), load_vocabulary(Path(__file__).parent.parent / "families"))
    for kind in seen.kinds:
        block = kind.block
        assert (block.scale, block.why, len(block.sublayers)) == ("layer_scalar", "", 2)
        number = seen.trial.model.get_submodule(block.path).layer_scalar
        assert abs(float(number) - 1) > 0.01
        total = block.entering + sum(part.contribution for part in block.sublayers)
        assert torch.allclose(total * number, block.leaving, atol=1e-5)
    law = seen.vocabulary.laws["layers"]["residual_sum"]
    whole = "(layer_input + self_attn.attention_output + mlp.mlp_output) * layer_scalar == layer_output"
    assert whole in [form.formula for form in made_forms(seen, {}, ("layers", "residual_sum"), law)]
