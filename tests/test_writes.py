"""What an experiment relies on when it writes: what moves, by how much, and what stays bit for bit."""

from __future__ import annotations

import pytest
import torch
from forged import FAMILIES, PROMPT, each_family, encoded, full, is_mixture, spec
from reading import as_usual, blocks_with, epsilons, everything, has, law_holds

from nnpedia.observe import host_at

pytestmark = pytest.mark.usefixtures("one_thread")


@each_family
def test_a_write_to_the_stream_moves_what_follows_by_what_was_written(family: str) -> None:
    """`layer_mid` written by δ: the stream after the MLP is what was written plus the MLP's new contribution."""
    if not (has(family, "layers", "layer_mid") and law_holds(family, "layers", "mlp_add")):
        pytest.skip("the block has no stream between its sublayers")
    model = full(family)
    goal = spec(family).laws["layers"]["mlp_add"].formula.partition(" == ")[2]
    for layer in blocks_with(family, "layers", "layer_mid"):
        block = model.layers[layer]
        with model.trace(PROMPT):
            before = block.layer_mid.clone().save()
            written = (before + 0.5 * torch.sign(before)).save()
            block.layer_mid = written
            contribution = block.mlp.mlp_output.clone().save()
            after = getattr(block, goal).clone().save()
        clean = everything(model)
        assert torch.equal(before, clean[layer, "layers", "layer_mid"])
        assert torch.equal(after, written + contribution)
        assert not torch.equal(contribution, clean[layer, "mlp", "mlp_output"])


@each_family
def test_silenced_sublayers_leave_the_stream_as_it_came(family: str) -> None:
    """Of every kind of block: those whose mixer is attention, those whose mixer is recurrent, those with both."""
    mixers = {"residual_sum": ("self_attn", "attention_output"), "recurrent_sum": ("linear_attn", "linear_attn_output")}
    summed = [mixer for law, mixer in mixers.items() if law_holds(family, "layers", law)]
    if not summed:
        pytest.skip("the block does not add its contributions as they are")
    model = full(family)
    others = [
        ("mlp", "mlp_output"),
        *([("layers", "per_layer_output")] if has(family, "layers", "per_layer_output") else []),
    ]
    contributions = [f"{host}.{name}" for host, name in (*mixers.values(), *others)]
    scaled = "layer_scalar" in spec(family).laws["layers"]["residual_sum"].formula
    ordered = [spot for spot in model.forward_order() if spot in contributions]
    for layer in sorted({layer for mixer in summed for layer in blocks_with(family, *mixer)}):
        block = model.layers[layer]
        with model.trace(PROMPT):
            came = block.layer_input.clone().save()
            for host, name in (spot.split(".") for spot in ordered):
                if (at := host_at(model, layer, host)) is not None:
                    setattr(at, name, torch.zeros_like(getattr(at, name)))
            left = block.layer_output.clone().save()
        assert torch.equal(left, came * block._module.layer_scalar if scaled else came)


@each_family
def test_an_edit_at_a_position_reaches_no_earlier_one(family: str) -> None:
    """The model is causal, so an edited token changes its own and later logits only."""
    model = full(family)
    with model.trace(PROMPT):
        clean = model.logits.clone().save()
    position = clean.shape[1] // 2
    with model.trace(PROMPT):
        model.layers[0].layer_output[:, position] += 1.0
        edited = model.logits.clone().save()
    changed = (edited != clean).any(-1)[0]
    assert not changed[:position].any()
    assert changed[position]
    assert changed[position + 1 :].any()


@each_family
def test_a_key_head_serves_exactly_its_query_heads(family: str) -> None:
    if not has(family, "self_attn", "attention_keys", "attention_head_outputs"):
        pytest.skip("no softmax attention")
    model = full(family)
    group = model.num_heads // model.num_kv_heads
    for value in ("attention_keys", "attention_values"):
        for layer in blocks_with(family, "self_attn", value):
            clean = everything(model)[layer, "self_attn", "attention_head_outputs"]
            for head in range(model.num_kv_heads):
                attention = model.layers[layer].self_attn
                with model.trace(PROMPT):
                    getattr(attention, value)[:, head] *= -1.5
                    edited = attention.attention_head_outputs.clone().save()
                changed = (edited != clean).flatten(0, 1).any(-1).any(0)
                expected = [group * head <= query < group * (head + 1) for query in range(model.num_heads)]
                assert changed.tolist() == expected


@each_family
def test_a_query_head_reaches_its_own_output_only(family: str) -> None:
    if not has(family, "self_attn", "attention_queries", "attention_head_outputs"):
        pytest.skip("no softmax attention")
    model = full(family)
    for layer in blocks_with(family, "self_attn", "attention_queries"):
        attention = model.layers[layer].self_attn
        with model.trace(PROMPT):
            attention.attention_queries[:, 1] *= -1.5
            edited = attention.attention_head_outputs.clone().save()
        clean = everything(model)[layer, "self_attn", "attention_head_outputs"]
        changed = (edited != clean).flatten(0, 1).any(-1).any(0)
        assert changed.tolist() == [head == 1 for head in range(model.num_heads)]


@each_family
def test_assigned_attention_is_what_the_attention_goes_on_with(family: str) -> None:
    """Scores, pattern and head outputs, each assigned: the next of them is computed from what was assigned."""
    if not has(family, "self_attn", "attention_scores", "attention_probabilities", "attention_head_outputs"):
        pytest.skip("no softmax attention")
    model = full(family)
    for layer in blocks_with(family, "self_attn", "attention_scores"):
        attention = model.layers[layer].self_attn
        with model.trace(PROMPT):
            scores = (attention.attention_scores * 0.5).save()
            attention.attention_scores = scores
            pattern = attention.attention_probabilities.clone().save()
        if as_usual(family, "self_attn", "pattern"):
            assert torch.equal(pattern, scores.softmax(-1))

        with model.trace(PROMPT):
            before = attention.attention_probabilities
            only_first = torch.zeros_like(before)
            only_first[..., 0] = 1
            attention.attention_probabilities = only_first
            heads = attention.attention_head_outputs.clone().save()
        if law_holds(family, "self_attn", "mixing"):
            values = everything(model)[layer, "self_attn", "attention_values"]
            first = values[:, :, 0].repeat_interleave(model.num_heads // model.num_kv_heads, dim=1)
            assert torch.equal(heads, first.unsqueeze(1).expand_as(heads))

        with model.trace(PROMPT):
            written = (attention.attention_head_outputs * -2).save()
            attention.attention_head_outputs = written
            premix = attention.attention_premix.clone().save()
        if as_usual(family, "self_attn", "premix"):
            assert torch.equal(premix, written)
        elif law_holds(family, "self_attn", "premix"):  # scaled on its way by what the heads have no part in
            assert torch.equal(premix, everything(model)[layer, "self_attn", "attention_premix"] * -2)


@each_family
def test_an_ablated_head_is_missing_from_the_contribution_and_nothing_else_is(family: str) -> None:
    """The output projection is linear: zeroing a head takes that head's columns' product away."""
    if not (has(family, "self_attn", "attention_premix") and law_holds(family, "self_attn", "output_projection")):
        pytest.skip("no output projection of heads side by side")
    model = full(family)
    for layer in blocks_with(family, "self_attn", "attention_premix"):
        attention = model.layers[layer].self_attn
        with model.trace(PROMPT):
            clean = attention.o_proj.output.clone().save()  # before any norm the block puts after it
        with model.trace(PROMPT):
            head = attention.attention_premix[:, :, 2].clone().save()
            attention.attention_premix[:, :, 2] = 0
            without = attention.o_proj.output.clone().save()
        weight = attention.o_proj._module.weight
        weight = weight.T if isinstance(attention.o_proj._module, torch.nn.Linear) else weight  # Conv1D is [in out]
        width = head.shape[-1]
        share = head @ weight[2 * width : 3 * width]
        assert epsilons(clean - without, share) < 64


@each_family
def test_another_prompts_tokens_or_embeddings_give_its_logits(family: str) -> None:
    """`input_ids` and `token_embeddings` are where the model starts: put another prompt's there and get its answer.

    A block that reads an embedding of its own has a start of its own.
    """
    model = full(family)
    other = PROMPT[::-1]
    ids = encoded(model, other)["input_ids"]
    blocks = list(model.layers) if has(family, "layers", "per_layer_input") else []
    of_blocks: list[torch.Tensor] = []
    with model.trace(other):
        embeddings = model.token_embeddings.clone().save()
        for block in blocks:
            of_blocks.append(block.per_layer_input.clone().save())
        expected = model.logits.clone().save()
    with model.trace(PROMPT):
        model.input_ids = ids
        by_ids = model.logits.clone().save()
    with model.trace(PROMPT):
        model.token_embeddings = embeddings
        for block, embedding in zip(blocks, of_blocks, strict=True):
            block.per_layer_input = embedding
        by_embeddings = model.logits.clone().save()
    assert torch.equal(by_ids, expected)
    assert torch.equal(by_embeddings, expected)


@each_family
def test_assigned_logits_are_what_the_call_returns(family: str) -> None:
    model = full(family)
    with model.trace(PROMPT) as tracer:
        model.logits = torch.flip(model.logits, dims=(-1,))
        probabilities = model.next_token_probs.save()
        result = tracer.result.save()
    clean = everything(model)[None, "model", "logits"]
    assert torch.equal(result.logits, clean.flip(-1))
    assert torch.equal(probabilities, clean.flip(-1)[:, -1].softmax(-1))


# -- mixtures -----------------------------------------------------------------------------------

each_mixture = pytest.mark.parametrize("family", [name for name in FAMILIES if is_mixture(name)])


@each_mixture
def test_a_token_goes_where_its_router_logits_say(family: str) -> None:
    """One expert's logit raised at one token: it is chosen there, and no other token changes experts."""
    model = full(family)
    for layer in blocks_with(family, "mlp", "router_logits"):
        mixture = model.layers[layer].mlp
        clean = everything(model)[layer, "mlp", "expert_indices"]
        token = 7
        missing = next(expert for expert in range(model.num_experts) if expert not in clean[0, token].tolist())
        with model.trace(PROMPT):
            mixture.router_logits[0, token, missing] += 100.0
            chosen = mixture.expert_indices.clone().save()
        changed = (chosen != clean).any(-1)[0]
        logits = everything(model)[layer, "mlp", "router_logits"]
        if not torch.equal(clean.sort(-1).values, logits.topk(model.top_k).indices.sort(-1).values):
            pytest.skip("the logits alone do not say where a token goes")
        assert missing in chosen[0, token].tolist()
        assert changed.nonzero().flatten().tolist() == [token]


@each_mixture
def test_a_slot_without_weight_adds_nothing(family: str) -> None:
    """A token's weights set to zero silence its experts, and no other token's."""
    model = full(family)
    for layer in blocks_with(family, "mlp", "expert_weights"):
        mixture = model.layers[layer].mlp
        clean = everything(model)
        with model.trace(PROMPT):
            mixture.expert_weights[:, 5] = 0
            outputs = mixture.expert_outputs.clone().save()
            routed = mixture.routed_output.clone().save()
        others = [token for token in range(len(PROMPT)) if token != 5]
        assert not routed[:, 5].any()
        assert not outputs[:, 5].any()
        assert torch.equal(routed[:, others], clean[layer, "mlp", "routed_output"][:, others])


@each_mixture
def test_a_swapped_expert_computes_what_that_expert_computes(family: str) -> None:
    """An index assigned at a slot gives that slot the other expert's output, at the weight it had."""
    from nnpedia.functions import each_expert

    if not as_usual(family, "mlp", "experts"):
        pytest.skip("an expert reads the token times its weight")
    model = full(family)
    for layer in blocks_with(family, "mlp", "expert_indices"):
        mixture = model.layers[layer].mlp
        with model.trace(PROMPT):
            entered = model.layers[layer].mlp_input.clone().save()
            indices = ((mixture.expert_indices + 1) % model.num_experts).save()
            mixture.expert_indices = indices
            weights = mixture.expert_weights.clone().save()
            outputs = mixture.expert_outputs.clone().save()
        expected = each_expert(mixture.experts._module, entered, indices) * weights
        assert epsilons(outputs, expected) < 16


@each_family
def test_every_write_ends_with_its_trace(family: str) -> None:
    """After a trace that edits every block, the model answers as before."""
    model = full(family)
    clean = everything(model)[None, "model", "logits"]
    with model.trace(PROMPT):
        for block in model.layers:
            block.layer_output[:] = 0
    with model.trace(PROMPT):
        after = model.logits.clone().save()
    assert torch.equal(after, clean)
