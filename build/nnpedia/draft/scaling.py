"""Scaling: the sizes of a small checkpoint that runs, from a config at full size.

A key is scaled by what kind of number it is, told from its name. The sizes are chosen so that two axes seldom have
one length; what a class refuses is put right by the repairs, tried one after another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from nnpedia.checkpoints.stated import knows
from nnpedia.draft.depth import Sizes, layers, twice

HIDDEN, HEADS, GROUPED, WIDTH = 96, 6, 2, 20

#: A key's kind by its whole name, and the length such a number gets. The first that matches counts.
_LENGTHS: tuple[tuple[str, int], ...] = (
    (r"hidden_size|n_embd|d_model|embedding_dim|lru_width|attention_hidden_size", HIDDEN),
    (r"word_embed_proj_dim", HIDDEN),
    (r"vocab_size|unpadded_vocab_size|vocab_size_per_layer_input", 320),
    (r"max_position_embeddings|n_positions|n_ctx|max_seq_len|model_max_length|context_length", 512),
    (r"shared_experts?_intermediate_size|shared_intermediate_size|moe_shared_expert_intermediate_size", 22),
    (r"moe_intermediate_size|expert_ffn_hidden_size", 24),
    (r"dense_intermediate_size|intermediate_size_mlp", 44),
    (r"intermediate_size|n_inner|ffn_dim|ffn_hidden_size|dff|dim_ff|ffn_intermediate_size", 112),
    (r"num_attention_heads|n_head|n_heads|num_heads|attention_heads", HEADS),
    (r"linear_num_value_heads|mamba_n_heads|n_mamba_heads|mamba_num_heads|linear_num_heads", 8),
    (r"linear_num_key_heads", 4),
    (r"linear_key_head_dim|linear_head_dim", 14),
    (r"linear_value_head_dim", 18),
    (r"mamba_d_head|mamba_headdim|mamba_head_dim", 24),
    (r"mamba_d_ssm", 192),
    (r"mamba_d_state|state_size|ssm_state_size", 28),
    (r"mamba_dt_rank|time_step_rank", 5),
    (r"kv_lora_rank", 28),
    (r"qk_rope_head_dim", 8),
    (r"qk_nope_head_dim", 10),
    (r"v_head_dim", 12),
    (r"swa_v_head_dim", 12),
    (r"head_dim|swa_head_dim|kv_channels|d_head|attention_head_dim", WIDTH),
    (r".*_rank", 26),
    (r"rotary_dim", 8),
    (r"sliding_window|sliding_window_size|window_size|attention_window_size|local_attention|attention_chunk_size", 8),
    (r"(mamba_)?chunk_size|block_size", 16),
    (r"num_experts|num_local_experts|n_routed_experts|moe_num_experts", 16),
    (r"swa_num_attention_heads", HEADS),
    (r"query_pre_attn_scalar", 18),
    (r"index_head_dim", 16),
    (r"index_n_heads", 4),
    (r"index_topk", 6),
    (r"hidden_size_per_layer_input", 30),
    (r"laurel_rank", 26),
)  # fmt: skip
#: Numbers that are only made smaller, and how small.
_AT_MOST: tuple[tuple[str, int], ...] = (
    (r"num_experts_per_tok(en)?|moe_k|moe_topk|moe_top_k|top_k_experts|router_topk", 3),
    (r"first_k_dense_replace|num_dense_layers|moe_layer_start_index", 1),
    (r"n_shared_experts|num_shared_experts", 1),
    (r"n_group|num_expert_group", 4),
    (r"topk_group", 2),
    (r"(mamba_)?n_groups", 2),
    (r"zero_expert_num", 4),
    (r"num_kv_shared_layers", 1),
    (r"num_nextn_predict_layers", 0),
    (r"attn_layer_period|expert_layer_period|full_attention_interval", 3),
    (r"attn_layer_offset|expert_layer_offset", 1),
)
#: Factors of the config that do nothing at one, and what shows them.
_FACTORS: tuple[tuple[str, float], ...] = (
    (r"attention_multiplier", 0.4),
    (r"(attn|attention)_logit_softcapping", 2.0),
    (r"final_logit_softcapping|logits_soft_cap", 5.0),
    (r"residual_multiplier", 0.5),
    (r"embedding_multiplier", 1.5),
    (r"logits_scaling|.*_out_multiplier", 0.75),
    (r"lm_head_multiplier|key_multiplier", 0.8),
    (r".*_multiplier", 1.25),
)


def forge_sizes(model_type: str, reference: Any, stated: Sizes) -> Iterator[Sizes]:
    """Sizes to try in turn, each with the repairs of those before; the keys of a spec's `forge:`.

    A length that the class works out for itself is none of them, as a spec cannot state it.
    """
    first = scaled(reference)
    for repair in _repairs(reference):
        sizes = {
            key: value
            for key, value in {**first, **repair}.items()
            if value != "as it is" and knows(type(reference), key)
        }
        yield {**layers(model_type, reference, stated, sizes), **sizes}
    if again := twice(reference, first):
        yield {**first, **again}


def scaled(config: Any) -> Sizes:
    """Every number of a config that has a kind, at its small length; layers are not told here."""
    given = config.to_dict()
    sizes: Sizes = {}
    for key, value in given.items():
        small = _scaled(key, value, given)
        if small is not None and small != value:
            sizes[key] = small
    if "qk_rope_head_dim" in given:
        for computed in ("head_dim", "qk_head_dim"):
            sizes.pop(computed, None)
    names = type(config).attribute_map
    return {names.get(key, key) if names.get(key) in given else key: value for key, value in sizes.items()}


def _scaled(key: str, value: Any, given: Sizes) -> Any:
    if isinstance(value, dict) and key.endswith("_config"):
        inner = {name: small for name, one in value.items() if (small := _scaled(name, one, value)) is not None}
        if all(value[name] == small for name, small in inner.items()):
            return None
        return {name: one for name, one in {**value, **inner}.items() if name not in _generic()}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if re.fullmatch(r"num_key_value_heads|num_kv_heads|kv_n_heads|swa_num_key_value_heads", key):
        whole = next((given[name] for name in ("num_attention_heads", "n_heads", "n_head") if name in given), 0)
        return HEADS if value == whole else 1 if value == 1 else GROUPED
    if key == "attention_hidden_size" and given.get("hidden_size"):
        return HIDDEN * int(value) // int(given["hidden_size"])  # a mixer may read two streams side by side
    for pattern, length in _LENGTHS:
        if re.fullmatch(pattern, key):
            return length if value else None
    for pattern, length in _AT_MOST:
        if re.fullmatch(pattern, key):
            return min(int(value), length)
    for pattern, factor in _FACTORS:
        if re.fullmatch(pattern, key) and isinstance(value, float):
            return factor
    return None


def _wanted(key: str) -> int | None:
    """What a class that leaves a count of experts open may be given."""
    if "expert" not in key:
        return None
    return next((size for pattern, size in (*_LENGTHS, *_AT_MOST) if re.fullmatch(pattern, key)), None)


def _generic() -> frozenset[str]:
    """The keys every config has, which say nothing of one."""
    from transformers import PretrainedConfig

    return frozenset(PretrainedConfig().to_dict())


def _repairs(reference: Any) -> Iterator[Sizes]:
    """Changes to the sizes, from none on: what a class may ask of them, from the most common to the last resort."""
    given = reference.to_dict()

    def there(**sizes: Any) -> Sizes:
        return {key: value for key, value in sizes.items() if key in given}

    plain = there(rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    ungrouped = there(num_key_value_heads=HEADS, n_group=1, topk_group=1)
    filled = {key: small for key, value in given.items() if value is None and (small := _wanted(key)) is not None}
    mixed = _mixed(reference)
    yield from mixed
    yield {}
    if filled:
        yield filled
        yield from ({**filled, **kinds} for kinds in _kinds_of_its_own(given))
        yield {**filled, **plain}
    if "qk_rope_head_dim" in given:
        yield there(head_dim=8)
    yield from _kinds_of_its_own(given)
    yield there(head_dim=16, kv_channels=16, attention_head_dim=16, d_head=16)
    yield plain
    yield {**plain, **there(head_dim=16)}
    yield there(attention_head_dim=32)
    yield there(head_dim=24)
    yield there(head_dim=24, num_heads=8)
    yield ungrouped
    yield {**ungrouped, **there(head_dim=16)}
    yield {**ungrouped, **plain, **there(head_dim=16)}
    yield {**plain, **there(head_dim="as it is", num_attention_heads=4, num_key_value_heads=2, hidden_size=128)}
    yield there(hidden_size=128, num_attention_heads=8, head_dim=16)


def _mixed(reference: Any) -> list[Sizes]:
    """For a hybrid whose defaults have no block of attention, the settings that give it one."""
    given = reference.to_dict()
    kinds = next((key for key in _KINDS if isinstance(getattr(reference, key, None), list)), "")
    own = getattr(reference, kinds, [])
    if not own or any(kind not in _WITHOUT_ATTENTION for kind in own):
        return []
    if "attn_layer_indices" in given:
        return [{"attn_layer_indices": [1]}]
    return [{kinds: [own[0], kind, own[0]], "num_hidden_layers": 3} for kind in _ATTENTIVE] if kinds in given else []


_KINDS = ("layer_types", "layers_block_type")
_ATTENTIVE = ("full_attention", "attention", "sliding_attention")
#: Kinds of blocks without attention. Any other kind has one of its own, and its class may build it in every block.
_WITHOUT_ATTENTION = ("linear_attention", "conv", "moe", "mlp")


def _kinds_of_its_own(given: Sizes) -> Iterator[Sizes]:
    """Kinds of blocks for a class that leaves them open: attention beside each other kind that transformers has."""
    if given.get("layer_types", ()) is None:
        for other in ("conv", "sliding_attention", "linear_attention", "full_attention"):
            yield {"layer_types": [other, "full_attention", other], "num_hidden_layers": 3}
