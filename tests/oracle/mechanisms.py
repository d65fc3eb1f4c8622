"""What recordings mean: one entry per mechanism, none per family.

A mechanism is recognized by the names of the children that hold weights, so a module with one more
weight-holding child than an entry names is a mechanism the oracle does not know, and says so. A
place names a child (relative to the module itself), which side of its call, and which element. To
teach the oracle another kind of block, attention, MLP or stack, add an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True)
class Place:
    """Where a value is: the call of a child (`""` is the module itself), or a quantity inside it."""

    child: str
    side: Literal["argument", "returned", "inner"]
    element: int | str | None = None
    times: str | None = None


def argument(child: str = "", element: int | str = 0) -> Place:
    """What a child is called with; its first argument, wherever it is named, unless told otherwise."""
    return Place(child, "argument", element)


def returned(child: str = "", element: int | str | None = None, times: str | None = None) -> Place:
    """What a child gives back, multiplied by a number the module itself holds under the name `times`."""
    return Place(child, "returned", element, times)


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
        "token and position embeddings, blocks, final norm",
        "wte wpe h ln_f",
        {"model.token_embeddings": returned("wte"), "model.final_norm_output": returned("ln_f")},
        blocks="h",
    ),
)


def _two_norms(first: str, second: str, attention: str, times: str | None = None) -> Mechanism:
    mechanism = _mechanism(
        "a norm before each sublayer, each sublayer's return added as it is, or times a number of the block",
        f"{first} {attention} {second} mlp",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned(first),
            "layers.layer_mid": argument(second),
            "layers.mlp_norm_output": returned(second),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned(attention, times=times),
            "mlp.mlp_output": returned("mlp", times=times),
        },
        attention=attention,
        mlp="mlp",
    )
    return replace(mechanism, numbers=frozenset([times] if times else []))


BLOCKS = (
    _two_norms("input_layernorm", "post_attention_layernorm", "self_attn", times="residual_multiplier"),
    _two_norms("input_layernorm", "post_attention_layernorm", "self_attn"),
    _two_norms("ln_1", "ln_2", "attn"),
    _mechanism(
        "a norm on both sides of each sublayer",
        "input_layernorm self_attn post_attention_layernorm pre_feedforward_layernorm mlp post_feedforward_layernorm",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("input_layernorm"),
            "layers.layer_mid": argument("pre_feedforward_layernorm"),
            "layers.mlp_norm_output": returned("pre_feedforward_layernorm"),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("post_attention_layernorm"),
            "mlp.mlp_output": returned("post_feedforward_layernorm"),
        },
        attention="self_attn",
        mlp="mlp",
    ),
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
    _mechanism(
        "one norm feeding both sublayers, both added at once",
        "input_layernorm self_attn mlp",
        {
            "layers.layer_input": argument(),
            "layers.attention_norm_output": returned("input_layernorm"),
            "layers.mlp_input": argument("mlp"),
            "layers.layer_output": returned(),
            "self_attn.attention_output": returned("self_attn"),
            "mlp.mlp_output": returned("mlp"),
        },
        attention="self_attn",
        mlp="mlp",
    ),
)


def _softmax_attention(says: str, children: str, output: str) -> Mechanism:
    return _mechanism(
        says,
        f"{children} {output}",
        {
            "self_attn.attention_queries": inner("queries"),
            "self_attn.attention_keys": inner("keys"),
            "self_attn.attention_values": inner("values"),
            "self_attn.attention_scores": inner("scores"),
            "self_attn.attention_probabilities": inner("pattern"),
            "self_attn.attention_head_outputs": inner("heads"),
            "self_attn.attention_premix": argument(output),
        },
    )


ATTENTIONS = (
    _softmax_attention("three projections", "q_proj k_proj v_proj", "o_proj"),
    _softmax_attention("three projections, queries and keys normed", "q_proj k_proj v_proj q_norm k_norm", "o_proj"),
    _softmax_attention("one projection for queries, keys and values", "c_attn", "c_proj"),
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
        "a mixture whose router returns scores, weights and indices",
        "router experts",
        {
            "mlp.router_logits": returned("router", 0),
            "mlp.expert_weights": returned("router", 1),
            "mlp.expert_indices": returned("router", 2),
            "mlp.expert_outputs": inner("per_slot", "experts"),
            "mlp.routed_output": returned("experts"),
        },
    ),
)
