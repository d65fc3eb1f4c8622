"""What recordings mean: one entry per mechanism, none per family.

A mechanism is recognized by the names of the children that hold weights, so a module with one more
weight-holding child than an entry names is a mechanism the oracle does not know, and says so. A
place names a child (relative to the module itself), which side of its call, and which element. To
teach the oracle another kind of block, attention, MLP or stack, add an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

#: A function of a tensor and the model's config.
Rearranged = Callable[[Tensor, Any], Tensor]


@dataclass(frozen=True)
class Place:
    """Where a value is: the call of a child (`""` is the module itself), or a quantity inside it.

    `gate` names a child whose return, through a sigmoid, multiplies it.
    """

    child: str
    side: Literal["argument", "returned", "inner"]
    element: int | str | None = None
    times: str | None = None
    how: Rearranged | None = None
    gate: str | None = None


def argument(child: str = "", element: int | str = 0) -> Place:
    """What a child is called with; its first argument, wherever it is named, unless told otherwise."""
    return Place(child, "argument", element)


def returned(
    child: str = "", element: int | str | None = None, times: str | None = None, how: Rearranged | None = None
) -> Place:
    """What a child gives back, multiplied by a number the module itself holds under the name `times`.

    `how` makes the value of it, where the value is not what the child gives back but follows from it.
    """
    return Place(child, "returned", element, times, how)


def inner(quantity: str, child: str = "") -> Place:
    return Place(child, "inner", quantity)


@dataclass(frozen=True)
class Mechanism:
    """A kind of module, and where its values are.

    Attributes:
        children: The children that hold weights, exactly.
        numbers: Numbers the module holds beside them, such as a multiplier; some of a kind's modules have them.
        values: Standard value, as `host.name`, to its place.
        parts: Role (`blocks`, `attention`, `mlp`) to the child that plays it.
    """

    says: str
    children: frozenset[str]
    values: Mapping[str, Place]
    parts: Mapping[str, str] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()


def _mechanism(says: str, children: str, values: Mapping[str, Place], **parts: str) -> Mechanism:
    return Mechanism(says, frozenset(children.split()), values, parts)


STACKS = (
    _mechanism(
        "token embedding, blocks, final norm",
        "embed_tokens layers norm",
        {"model.token_embeddings": returned("embed_tokens"), "model.final_norm_output": returned("norm")},
        blocks="layers",
    ),
    _mechanism(
        "token embedding, blocks, a final norm that holds no weights",
        "embed_tokens layers",
        {"model.token_embeddings": returned("embed_tokens"), "model.final_norm_output": returned("norm")},
        blocks="layers",
    ),
    _mechanism(
        "token embedding, an embedding of the token for each block, blocks, final norm",
        "embed_tokens embed_tokens_per_layer per_layer_model_projection per_layer_projection_norm layers norm",
        {"model.token_embeddings": returned("embed_tokens"), "model.final_norm_output": returned("norm")},
        blocks="layers",
    ),
    _mechanism(
        "token and position embeddings, blocks, final norm",
        "wte wpe h ln_f",
        {"model.token_embeddings": returned("wte"), "model.final_norm_output": returned("ln_f")},
        blocks="h",
    ),
    _mechanism(
        "token embedding, blocks, final norm, under the names of state-space models",
        "embeddings layers norm_f",
        {"model.token_embeddings": returned("embeddings"), "model.final_norm_output": returned("norm_f")},
        blocks="layers",
    ),
    *(
        _mechanism(
            "the same, under other names",
            f"{others} {embedding} {blocks} {norm}",
            {"model.token_embeddings": returned(embedding), "model.final_norm_output": returned(norm)},
            blocks=blocks,
        )
        for embedding, blocks, norm, others in (
            ("embed_tokens", "layers", "final_layernorm", ""),
            ("embed_in", "layers", "final_layer_norm", ""),
            ("wte", "h", "ln_f", ""),
            ("wte", "blocks", "norm_f", ""),
            ("word_embeddings", "h", "ln_f", ""),
            ("word_embeddings", "h", "ln_f", "word_embeddings_layernorm"),
        )
    ),
    _mechanism(
        "a decoder inside the model, with token and position embeddings",
        "decoder",
        {
            "model.token_embeddings": returned("decoder.embed_tokens"),
            "model.final_norm_output": returned("decoder.final_layer_norm"),
        },
        blocks="decoder.layers",
    ),
)


def _two_norms(first: str, second: str, attention: str, times: str | None = None, mlp: str = "mlp") -> Mechanism:
    mechanism = _mechanism(
        "a norm before each sublayer, each sublayer's return added as it is, or times a number of the block",
        f"{first} {attention} {second} {mlp}",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned(first),
            "layers.layer_mid": argument(second),
            "layers.mlp_norm_output": returned(second),
            "layers.mlp_input": argument(mlp),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned(attention, times=times),
            "mlp.mlp_output": returned(mlp, times=times),
        },
        attention=attention,
        mlp=mlp,
    )
    return replace(mechanism, numbers=frozenset([times] if times else []))


def _four_norms(after_attention: str, before_mlp: str, after_mlp: str) -> Mechanism:
    return _mechanism(
        f"a norm on both sides of each sublayer, {after_attention} after the attention",
        f"input_layernorm self_attn {after_attention} {before_mlp} mlp {after_mlp}",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("input_layernorm"),
            "layers.layer_mid": argument(before_mlp),
            "layers.mlp_norm_output": returned(before_mlp),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned(after_attention),
            "mlp.mlp_output": returned(after_mlp),
        },
        attention="self_attn",
        mlp="mlp",
    )


def _beside(block: Mechanism, says: str, children: str, values: Mapping[str, Place]) -> Mechanism:
    """A block that holds something more."""
    more = {"says": f"{block.says}, and {says}", "children": block.children | set(children.split())}
    return replace(block, **more, values={**block.values, **values})


def _one_norm(norm: str, attention: str) -> Mechanism:
    return _mechanism(
        "one norm feeding both sublayers, both added at once",
        f"{norm} {attention} mlp",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned(norm),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned(attention),
            "mlp.mlp_output": returned("mlp"),
        },
        attention=attention,
        mlp="mlp",
    )


def _mixers(says: str, norms: tuple[str, str], mlp: str, **mixers: Place) -> Mechanism:
    """Mixers by role, `recurrent`, `attention` or both side by side, each with what it adds; then an MLP."""
    first, second = norms
    values = {"recurrent": "linear_attn.linear_attn_output", "attention": "self_attn.attention_output"}
    mechanism = _mechanism(
        says,
        f"{first} {second} {mlp} {' '.join(place.child for place in mixers.values())}",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned(first),
            "layers.layer_mid": argument(second),
            "layers.mlp_norm_output": returned(second),
            "layers.mlp_input": argument(mlp),
            "layers.layer_output": returned(),
            "mlp.mlp_output": returned(mlp),
            **{values[role]: place for role, place in mixers.items()},
        },
        mlp=mlp,
        **{role: place.child for role, place in mixers.items()},
    )
    return replace(mechanism, numbers=frozenset(place.times for place in mixers.values() if place.times))


BLOCKS = (
    _mixers(
        "a recurrent mixer and an MLP",
        ("input_layernorm", "post_attention_layernorm"),
        "mlp",
        recurrent=returned("linear_attn"),
    ),
    _mixers(
        "a recurrent mixer and an MLP",
        ("input_layernorm", "pre_ff_layernorm"),
        "feed_forward",
        recurrent=returned("mamba"),
    ),
    _mixers(
        "attention and an MLP",
        ("input_layernorm", "pre_ff_layernorm"),
        "feed_forward",
        attention=returned("self_attn"),
    ),
    _mixers(
        "a recurrent mixer and attention side by side, each times a number of the block, and an MLP",
        ("input_layernorm", "pre_ff_layernorm"),
        "feed_forward",
        recurrent=returned("mamba", times="ssm_out_multiplier"),
        attention=returned("self_attn", times="attn_out_multiplier"),
    ),
    _mechanism(
        "a norm and a recurrent mixer, and no MLP",
        "norm mixer",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("norm"),
            "layers.layer_output": returned(),
            "linear_attn.linear_attn_output": returned("mixer"),
        },
        recurrent="mixer",
    ),
    _two_norms("input_layernorm", "post_attention_layernorm", "self_attn", times="residual_multiplier"),
    _two_norms("input_layernorm", "post_attention_layernorm", "self_attn"),
    _two_norms(
        "input_layernorm", "post_attention_layernorm", "self_attn", times="residual_multiplier", mlp="block_sparse_moe"
    ),
    # norms without weights are no children that hold weights
    replace(
        _two_norms("input_layernorm", "post_attention_layernorm", "self_attn"), children=frozenset({"self_attn", "mlp"})
    ),
    _two_norms("ln_1", "ln_2", "attn"),
    _two_norms("input_layernorm", "post_attention_layernorm", "self_attn", mlp="feed_forward"),
    _four_norms("post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    _beside(
        _four_norms("post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
        "an embedding of the token that the stream gates, normed and added last",
        "per_layer_input_gate per_layer_projection post_per_layer_input_norm",
        {
            "layers.per_layer_input": argument(element=1),
            "layers.layer_after_mlp": argument("per_layer_input_gate"),
            "layers.per_layer_output": returned("post_per_layer_input_norm"),
        },
    ),
    _beside(
        _four_norms("post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
        "experts that read the stream beside the MLP",
        "router experts pre_feedforward_layernorm_2 post_feedforward_layernorm_1 post_feedforward_layernorm_2",
        {
            "mlp.shared_expert_output": returned("mlp"),
            "mlp.router_logits": returned("router.proj"),
            "mlp.expert_weights": returned("router", 1),
            "mlp.expert_indices": returned("router", 2),
            "mlp.expert_outputs": inner("per_slot", "experts"),
            "mlp.routed_output": returned("experts"),
        },
    ),
    _four_norms("post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
    _mechanism(
        "a norm after each sublayer and none before",
        "self_attn post_attention_layernorm mlp post_feedforward_layernorm",
        {
            "layers.layer_input": argument(),
            "layers.layer_mid": argument("mlp"),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("post_attention_layernorm"),
            "mlp.mlp_output": returned("post_feedforward_layernorm"),
        },
        attention="self_attn",
        mlp="mlp",
    ),
    _one_norm("input_layernorm", "self_attn"),
    _one_norm("input_layernorm", "self_attention"),
    _one_norm("ln_1", "attn"),
    _mechanism(
        "a norm for each sublayer, both reading the block's input, both added at once",
        "input_layernorm post_attention_layernorm attention mlp",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("input_layernorm"),
            "layers.mlp_norm_output": returned("post_attention_layernorm"),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("attention"),
            "mlp.mlp_output": returned("mlp"),
        },
        attention="attention",
        mlp="mlp",
    ),
    _mechanism(
        "a norm before each sublayer, each sublayer adding the stream to its own output",
        "input_layernorm self_attention post_attention_layernorm mlp",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("input_layernorm"),
            "layers.layer_mid": argument("post_attention_layernorm"),
            "layers.mlp_norm_output": returned("post_attention_layernorm"),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("self_attention.dense"),
            "mlp.mlp_output": returned("mlp.dense_4h_to_h"),
        },
        attention="self_attention",
        mlp="mlp",
    ),
    _mechanism(
        "a norm before each sublayer, the MLP adding the stream to its own output",
        "norm_1 attn norm_2 ffn",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("norm_1"),
            "layers.layer_mid": argument("norm_2"),
            "layers.mlp_norm_output": returned("norm_2"),
            "layers.mlp_input": argument("ffn"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("attn"),
            "mlp.mlp_output": returned("ffn.down_proj"),
        },
        attention="attn",
        mlp="ffn",
    ),
    _mechanism(
        "a norm before each sublayer, the MLP's projections in the block itself",
        "self_attn_layer_norm self_attn final_layer_norm fc1 fc2",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("self_attn_layer_norm"),
            "layers.layer_mid": argument("final_layer_norm"),
            "layers.mlp_norm_output": returned("final_layer_norm"),
            "layers.mlp_input": argument("fc1"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("self_attn"),
            "mlp.mlp_activation": returned("activation_fn"),
            "mlp.mlp_neurons": argument("fc2"),
            "mlp.mlp_output": returned("fc2"),
        },
        attention="self_attn",
    ),
)


def _softmax_attention(says: str, children: str, output: str, inside: str = "") -> Mechanism:
    return _mechanism(
        says,
        inside or f"{children} {output}",
        {
            "self_attn.attention_queries": inner("queries", inside),
            "self_attn.attention_keys": inner("keys", inside),
            "self_attn.attention_values": inner("values", inside),
            "self_attn.attention_scores": inner("scores", inside),
            "self_attn.attention_probabilities": inner("pattern", inside),
            "self_attn.attention_head_outputs": inner("heads", inside),
            "self_attn.attention_premix": argument(f"{inside}.{output}" if inside else output),
        },
    )


ATTENTIONS = (
    _softmax_attention("three projections", "q_proj k_proj v_proj", "o_proj"),
    _softmax_attention("three projections, queries and keys normed", "q_proj k_proj v_proj q_norm k_norm", "o_proj"),
    _softmax_attention("queries projected and normed; keys and values of another block", "q_proj q_norm", "o_proj"),
    _softmax_attention(
        "two projections, the second for keys and values, queries and keys normed",
        "q_proj k_proj q_norm k_norm",
        "o_proj",
    ),
    _softmax_attention(
        "three projections, queries and keys normed", "q_proj k_proj v_proj query_layernorm key_layernorm", "o_proj"
    ),
    _softmax_attention(
        "queries from a latent, keys and values from another",
        "q_a_proj q_a_layernorm q_b_proj kv_a_proj_with_mqa kv_a_layernorm kv_b_proj",
        "o_proj",
    ),
    _softmax_attention("one projection for queries, keys and values", "c_attn", "c_proj"),
    _softmax_attention("one projection for queries, keys and values", "qkv_proj", "o_proj"),
    _softmax_attention("one projection for queries, keys and values", "qkv_proj", "out_proj"),
    _softmax_attention("one projection for queries, keys and values", "query_key_value", "dense"),
    _softmax_attention("one projection for queries, keys and values", "Wqkv", "out_proj"),
    _softmax_attention("three projections", "q_proj k_proj v_proj", "dense"),
    _softmax_attention("three projections", "q_proj k_proj v_proj", "out_proj"),
    _softmax_attention("three projections, in a module of their own", "q_proj k_proj v_proj", "out_proj", "attention"),
)


def _mixture(router: str, shared: str = "") -> Mechanism:
    return _mechanism(
        "a mixture whose router returns scores, weights and indices",
        f"{router} experts {shared}",
        {
            "mlp.router_logits": returned(router, 0),
            "mlp.expert_weights": returned(router, 1),
            "mlp.expert_indices": returned(router, 2),
            "mlp.expert_outputs": inner("per_slot", "experts"),
            "mlp.routed_output": returned("experts"),
            **({"mlp.shared_expert_output": returned(shared)} if shared else {}),
        },
    )


def _the_largest(scores: Tensor, config: Any) -> Tensor:
    return scores.argsort(dim=-1, descending=True)[..., : config.num_experts_per_tok]


def _by_expert(stacked: Tensor, config: Any) -> Tensor:
    return stacked.reshape(config.num_local_experts, -1, stacked.shape[-1])


def _by_token(stacked: Tensor, config: Any) -> Tensor:
    return _by_expert(stacked, config).transpose(0, 1)


def _recurrence(says: str, children: str) -> Mechanism:
    inside = ["state_input", "queries", "keys", "values", "betas", "decays", "states", "head_outputs", "state_output"]
    kept = {f"linear_attn.{name}": inner(name) for name in inside}
    return _mechanism(says, f"{children} out_proj", {**kept, "linear_attn.premix": argument("out_proj")})


RECURRENCES = (
    _recurrence("a state per head, its output normed and gated", "conv1d in_proj norm"),
    _recurrence("a state per head, its output gated", "conv1d in_proj"),
    _recurrence("a state per head under the delta rule", "conv1d in_proj_qkvz in_proj_ba norm"),
    _recurrence(
        "a state per head under the delta rule, from four projections",
        "conv1d in_proj_qkv in_proj_z in_proj_b in_proj_a norm",
    ),
    _recurrence("a state per channel, its output gated", "conv1d in_proj x_proj dt_proj"),
    _recurrence(
        "a state per channel; step size, key and query normed",
        "conv1d in_proj x_proj dt_proj dt_layernorm b_layernorm c_layernorm",
    ),
)

MLPS = (
    _mechanism(
        "gated",
        "gate_proj up_proj down_proj",
        {"mlp.mlp_activation": returned("act_fn"), "mlp.mlp_neurons": argument("down_proj")},
    ),
    _mechanism(
        "not gated",
        "c_fc c_proj",
        {"mlp.mlp_activation": returned("act"), "mlp.mlp_neurons": argument("c_proj")},
    ),
    _mechanism(
        "gated, gate and up from one projection",
        "gate_up_proj down_proj",
        {"mlp.mlp_activation": returned("activation_fn"), "mlp.mlp_neurons": argument("down_proj")},
    ),
    # The down projection of an MLP without a gate reads the activation, whatever computes it.
    *(
        _mechanism(
            "not gated", f"{up} {down}", {"mlp.mlp_activation": argument(down), "mlp.mlp_neurons": argument(down)}
        )
        for up, down in (
            ("fc1", "fc2"),
            ("fc_in", "fc_out"),
            ("up_proj", "down_proj"),
            ("dense_h_to_4h", "dense_4h_to_h"),
        )
    ),
    _mixture("router"),
    _mixture("gate"),
    _mixture("gate", shared="shared_experts"),
    _mechanism(
        "a mixture that runs every expert on every token, times a score that is zero for most",
        "router experts shared_expert",
        {
            "mlp.router_logits": returned("router", 1),
            "mlp.expert_weights": returned("router", 0),
            "mlp.expert_indices": returned("router", 1, how=_the_largest),
            "mlp.expert_outputs": returned("experts", how=_by_token),
            "mlp.routed_output": returned("experts", how=lambda stacked, config: _by_expert(stacked, config).sum(0)),
            "mlp.shared_expert_output": returned("shared_expert"),
        },
    ),
    _mechanism(
        "a mixture whose router returns scores, weights and indices, and a shared expert behind a gate",
        "gate experts shared_expert shared_expert_gate",
        {
            "mlp.router_logits": returned("gate", 0),
            "mlp.expert_weights": returned("gate", 1),
            "mlp.expert_indices": returned("gate", 2),
            "mlp.expert_outputs": inner("per_slot", "experts"),
            "mlp.routed_output": returned("experts"),
            "mlp.shared_expert_output": replace(returned("shared_expert"), gate="shared_expert_gate"),
        },
    ),
)
